"""Who scores higher, over all tasks? A section of a report: means, probabilities of improvement, profiles."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np
import pandas as pd

from analysis.pictures.profile import profile_picture
from analysis.report import page as html
from analysis.statistics.intervals import Interval
from analysis.study import Study
from analysis.tables.comparison import Lines, aggregates, improvements, lines_of
from analysis.verdicts.by_arm import MANY_ARMS

SEED = 20242
"""Of the bootstrap; fixed, so that the same runs give the same page."""
FEW = 5
"""Lines up to which every pair is shown."""


def compared(study: Study) -> list[str]:
    """Nothing for fewer than two lines, or for more than can be told apart."""
    lines = lines_of(study.outcomes, study.factors)
    if not 2 <= len(lines.scores) <= MANY_ARMS:
        return []
    rng = np.random.default_rng(SEED)
    found = aggregates(lines, study.criteria.target, rng=rng)
    words = pd.DataFrame(
        {line: {name: _said(interval) for name, interval in own.items()} for line, own in found.items()}
    ).T
    words["runs"] = [str(next(iter(own.values())).n) for own in found.values()]
    return [
        html.data_table(words, corner=lines.by),
        html.paragraph(_note(lines, study.criteria.target), "soft"),
        html.source(final_scores=_long(found, lines.by)),
        *(_pairs(lines) if len(lines.scores) <= FEW else []),
        html.pictures([profile_picture(lines, study.criteria.metric, rng=rng)]),
    ]


def _long(found: Mapping[str, Mapping[str, Interval]], what: str, against: str = "statistic") -> pd.DataFrame:
    """A row an estimate: what it is of, which it is, estimate, low, high, n."""
    return pd.DataFrame(
        [
            {what: of, against: name, "estimate": one.estimate, "low": one.low, "high": one.high, "n": one.n}
            for of, own in found.items()
            for name, one in own.items()
        ]
    )


def _pairs(lines: Lines) -> list[str]:
    found = improvements(lines)
    table = {
        row: {column: _said(own[column], "{:.2f}") if column in own else "-" for column in lines.scores}
        for row, own in found.items()
    }
    return [
        html.data_table(pd.DataFrame.from_dict(table, orient="index"), corner="row beats column"),
        html.paragraph(
            "Probability that a run of the row scores higher than one of the column in the same task, a tie"
            " counting one half; 0.5 is no difference. It says how often, not by how much; Newcombe's 95 %"
            " interval, seeds taken as unpaired.",
            "soft",
        ),
        html.source(probability_of_improvement=_long(found, lines.by, "beats")),
    ]


def _note(lines: Lines, target: float) -> str:
    tasks = f"{lines.tasks} tasks" if lines.tasks > 1 else "one task"
    left = f" Left out, since run in other tasks: {', '.join(lines.left_out)}." if lines.left_out else ""
    return (
        f"Final scores of all runs, {tasks}; IQM: mean of the middle half; short of target: mean of what a"
        f" run lacks to {target:g}. Seeds are drawn anew within each task; 95 %, too narrow for few"
        f" seeds.{left}"
    )


def _said(interval: Interval, form: str = "{:.3f}") -> str:
    estimate, low, high = (form.format(v) for v in (interval.estimate, interval.low, interval.high))
    return estimate if low == "nan" else f"{estimate} [{low}, {high}]"
