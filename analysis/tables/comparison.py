"""Who scores higher, over all tasks that were run? Estimators by their final scores, task by task.

A line is an estimator where a study runs one in several tasks, else an arm; a task is what else was set. Only
lines that were run in the same tasks are compared, the largest such set; the others are named.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from typing import final

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from analysis.statistics.improvement import probability_of_improvement
from analysis.statistics.intervals import Interval, iqm, mean
from analysis.statistics.stratified import performance_profile, shortfall, stratified_interval

Floats = NDArray[np.float64]
POINTS = 81
"""Thresholds of a profile."""


@final
@dataclass(frozen=True, slots=True, kw_only=True)
class Lines:
    """Final scores to be compared."""

    scores: dict[str, list[Floats]]
    """By line, its seeds' scores task by task; the tasks are those of every line, in one order."""
    left_out: tuple[str, ...]
    """Lines that were run in other tasks."""
    by: str
    """What a line is: estimator or arm."""

    @property
    def tasks(self) -> int:
        return len(next(iter(self.scores.values()))) if self.scores else 0


def lines_of(outcomes: pd.DataFrame, factors: tuple[str, ...]) -> Lines:
    """The lines of a study with a final score in every run of theirs."""
    known = outcomes.loc[outcomes["final_score"].notna()]
    by = "estimator" if _several_arms("estimator", known, factors) else "arm"
    others = [name for name in factors if name != by] if by == "estimator" else []
    found: dict[str, dict[tuple[str, ...], Floats]] = {}
    for line, own in known.groupby(by, sort=False):
        tasks = own[others].astype(str).agg(tuple, axis=1) if others else pd.Series([("all",)] * len(own))
        groups = own["final_score"].groupby(tasks.to_numpy())
        found[str(line)] = {tuple(map(str, task)): of.to_numpy(dtype=float) for task, of in groups}
    sets = [frozenset(tasks) for tasks in found.values()]
    # Most comparisons of runs: lines times tasks.
    chosen = max(sets, key=lambda tasks: sets.count(tasks) * len(tasks), default=frozenset())
    return Lines(
        scores={
            line: [tasks[task] for task in sorted(chosen)]
            for line, tasks in found.items()
            if set(tasks) == chosen
        },
        left_out=tuple(line for line, tasks in found.items() if set(tasks) != chosen),
        by=by,
    )


def _several_arms(name: str, outcomes: pd.DataFrame, factors: tuple[str, ...]) -> bool:
    return name in factors and outcomes[name].nunique() < outcomes["arm"].nunique()


def aggregates(lines: Lines, target: float, *, rng: np.random.Generator) -> dict[str, dict[str, Interval]]:
    """Mean, interquartile mean and shortfall below the target of each line, with stratified intervals."""
    statistics: dict[str, Callable[..., Floats]] = {
        "mean": mean,
        "IQM": iqm,
        "short of target": partial(shortfall, target=target),
    }
    return {
        line: {
            name: stratified_interval(strata, rng=rng, statistic=statistic, resamples=1999)
            for name, statistic in statistics.items()
        }
        for line, strata in lines.scores.items()
    }


def improvements(lines: Lines) -> dict[str, dict[str, Interval]]:
    """How likely is a run of the row's line to score higher than one of the column's, in the same task?"""
    return {
        row: {
            column: probability_of_improvement(own, other)
            for column, other in lines.scores.items()
            if column != row
        }
        for row, own in lines.scores.items()
    }


def profiles(lines: Lines, *, rng: np.random.Generator) -> pd.DataFrame:
    """Share of runs above each score: columns arm (the line), x, mean, low, high, n."""
    every = np.concatenate([scores for strata in lines.scores.values() for scores in strata])
    thresholds = np.linspace(every.min(), every.max(), POINTS)
    parts = [
        performance_profile(strata, thresholds, rng=rng)
        .rename(columns={"threshold": "x", "share": "mean"})
        .assign(arm=line, n=sum(map(len, strata)))
        for line, strata in lines.scores.items()
    ]
    return pd.concat(parts, ignore_index=True)
