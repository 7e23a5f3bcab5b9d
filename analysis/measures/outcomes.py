"""What did one seed of one arm come to? One row of numbers a run, which verdicts are made of."""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Iterable
from typing import Final

import numpy as np
import pandas as pd

from analysis.measures import curves, idle, lag
from analysis.measures.alarm import alarm_outcomes
from analysis.measures.collapse import Collapse, Criteria, collapse, fate, final_score
from analysis.measures.compute import compute_hours
from analysis.measures.lag_split import PARTS, lag_split
from analysis.measures.load import load_outcomes
from analysis.measures.recovery import recovery_outcomes
from analysis.measures.throughput import throughput, window_s
from analysis.runs import Run

AVERAGED: Final = (
    "masked_fraction",
    "clipped_fraction",
    "flat_fraction",
    "ess_token",
    "ess_sequence",
    "k1",
    "k3",
    "explained_variance",
    "entropy",
    "gradient_cosine",
)
"""Columns of `updates` averaged over the run, weighted by the tokens of each update."""
SCORES: Final = ("reward", "accuracy", "accuracy_short", "accuracy_long")
"""Columns of `updates` whose last values are outcomes too, whichever of them is the study's score."""


def outcomes(run: Run, criteria: Criteria, *, split: pd.DataFrame | None = None) -> dict[str, object]:
    """Per-seed scalars, by the name that a hypothesis calls its `metric`.

    Lags are in updates, of trained rollouts: `mean_lag`, `p99_lag`, `max_lag` of each rollout's oldest
    token, `token_mean_lag` over tokens; `lag_generation`, `lag_group_wait`, `lag_queue` and
    `lag_trainer_ahead` are means of the parts of the first (`analysis.measures.lag_split`). Idle shares are
    of the time to the end of the last update.
    `hours_to_target` is NaN where the target was never reached; `hours` is how long that seed was watched.
    `event_update` is the update of the collapse, or the last one that was watched; `collapsed_at_update` is
    NaN where there was none; one that began after `watched_until_update` could not be told from a dip.
    `compute_hours` are machine hours of work (`analysis.measures.compute`); recoveries and alarms are those
    of `analysis.measures.recovery` and `analysis.measures.alarm`.
    `refused_updates` were left out by the learner, since their loss or gradient was not finite.
    Of a pipeline's load, and the lag that the closed form expects of it, see `analysis.measures.load`.
    Learning outcomes are NaN (and `fate` is "not measured") in a run that only kept time.

    Args:
        split: of this run, from `lag_split.lag_split`, if it is at hand.
    """
    split = lag_split(run.rollouts, run.updates) if split is None else split
    return {
        "arm": run.arm,
        "seed": run.seed,
        "clock": run.clock,
        "compute_hours": float(compute_hours(run, np.array([window_s(run)[1]]))[0]),
        **throughput(run),
        **_lags(run, split),
        **load_outcomes(run, split),
        **_idle(run),
        "refused_updates": _refused(run.updates),
        "dropped_share": float((run.rollouts["status"] == "dropped").mean()),
        **_learning(run, criteria),
        **{name: token_mean(run.updates, name) for name in AVERAGED},
        **_last(run.updates, criteria),
    }


def outcome_table(runs: Iterable[Run], criteria: Criteria) -> pd.DataFrame:
    """One row a run; an arm's seed may appear only once."""
    table = pd.DataFrame([outcomes(run, criteria) for run in runs])
    check_seeds(table)
    return table


def check_seeds(table: pd.DataFrame) -> None:
    """Raise if a seed of an arm is there twice: it would count as two."""
    twice = table.loc[table.duplicated(["arm", "seed"]), ["arm", "seed"]]
    if len(twice):
        arm, seed = twice.iloc[0].tolist()
        raise ValueError(f"arm {arm!r} has seed {seed} twice: the same seed is not a second sample")


def token_mean(updates: pd.DataFrame, name: str) -> float:
    """Mean of a per-update metric weighted by the update's tokens; NaN if it was never measured."""
    if name not in updates.columns:
        return math.nan
    values = updates[name].to_numpy(dtype=float)
    known = np.isfinite(values)
    weights = updates["tokens"].to_numpy(dtype=float)[known]
    return float(np.average(values[known], weights=weights)) if weights.sum() > 0 else math.nan


def idle_shares(run: Run) -> pd.DataFrame:
    """One row a machine kind and idle cause: kind (see `idle.machine_kind`), cause, idle share.

    A kind's share is the mean over its machines; its causes add up to its idle share.
    """
    causes = idle.idle_by_cause(run.intervals, window_s(run))
    kinds = idle.machine_kind(run.intervals["resource"].drop_duplicates())
    sizes = kinds.value_counts()
    causes["kind"] = causes["resource"].map(kinds)
    table = causes.groupby(["kind", "cause"])["idle"].sum().reset_index()
    # A table without rows has no number to tell its type.
    table["idle"] = table["idle"].astype(float) / table["kind"].map(sizes).astype(float)
    # A machine that never paused is a finding, not a gap in the table.
    tireless = [kind for kind in sizes.index if kind not in set(table["kind"])]
    if not tireless:
        return table
    return pd.concat([table, pd.DataFrame({"kind": tireless, "cause": "never idle", "idle": 0.0})])


def _lags(run: Run, split: pd.DataFrame) -> dict[str, float]:
    of_tokens = lag.token_lags(lag.of_status(run.rollouts, ("trained",)), run.segments)
    oldest = lag.oldest_lags(of_tokens).astype(float)
    tokens = of_tokens["tokens"].to_numpy(dtype=float)
    nothing = len(oldest) == 0
    split = lag.of_status(split, ("trained",))
    return {
        "mean_lag": math.nan if nothing else float(oldest.mean()),
        "p99_lag": math.nan if nothing else float(np.quantile(oldest, 0.99)),
        "max_lag": math.nan if nothing else float(oldest.max()),
        "token_mean_lag": math.nan
        if nothing
        else float(np.average(of_tokens["lag"].to_numpy(dtype=float), weights=tokens)),
        **{f"lag_{part}": float(split[part].mean()) if len(split) else math.nan for part in PARTS},
    }


def _idle(run: Run) -> dict[str, float]:
    shares = idle.shares(run.intervals, window_s(run))
    kinds = shares["resource"].map(idle.machine_kind(shares["resource"]))
    means = shares["idle"].groupby(kinds).mean()
    return {
        "trainer_idle": float(means.get("trainer", math.nan)),
        "engine_idle": float(means.get("engines", math.nan)),
    }


def _last(updates: pd.DataFrame, criteria: Criteria) -> dict[str, float]:
    """`final_` and the name of each score that was measured: its mean over the last share of the updates."""
    return {
        f"final_{name}": final_score(updates, dataclasses.replace(criteria, metric=name))
        for name in SCORES
        if name in updates.columns
    }


def _refused(updates: pd.DataFrame) -> int:
    """Updates that the learner left out because their numbers were not finite."""
    return int((updates["refused"] > 0).sum()) if "refused" in updates.columns else 0


def _learning(run: Run, criteria: Criteria) -> dict[str, object]:
    if criteria.metric not in run.updates.columns or run.updates[criteria.metric].isna().all():
        return {
            "final_score": math.nan,
            "best_score": math.nan,
            "hours_to_target": math.nan,
            "reached_target": False,
            "collapsed": False,
            "stalled": False,
            "event_update": math.nan,
            "collapsed_at_update": math.nan,
            "watched_until_update": math.nan,
            **alarm_outcomes(run.updates.iloc[:0], Collapse(happened=False, update=math.nan), criteria),
            "fate": "not measured",
        }
    event = collapse(run.updates, criteria)
    final = final_score(run.updates, criteria)
    hours = curves.hours_to_target(curves.score(run.updates, criteria.metric), criteria.target)
    ended = fate(run.updates, criteria)
    return {
        # A run that ended in NaN knows nothing: it scores chance, since leaving it out would flatter its arm.
        "final_score": criteria.chance if math.isnan(final) and event.happened else final,
        "best_score": float(run.updates[criteria.metric].max()),
        "hours_to_target": math.nan if hours is None else hours,
        "reached_target": hours is not None,
        "collapsed": event.happened,
        "stalled": ended == "stalled",
        "event_update": event.update,
        "collapsed_at_update": event.update if event.happened else math.nan,
        # A spell that begins later is cut short by the budget.
        "watched_until_update": float(run.updates["version"].max()) - criteria.collapse_window_updates + 1,
        **alarm_outcomes(run.updates, event, criteria),
        **(recovery_outcomes(run.updates, criteria) if criteria.shift_updates else {}),
        "fate": ended,
    }
