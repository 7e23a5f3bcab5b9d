"""Figures of a study that show how scores move over time."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import partial
from typing import Any, Literal, get_args

import numpy as np
import pandas as pd

from analysis.figures import lines as figures
from analysis.figures.lines import runs_in_words
from analysis.figures.style import drawing
from analysis.measures.curves import curve_table
from analysis.pictures.factors import NOWHERE, default_line, looks_of, restriction, words
from analysis.pictures.picture import Picture
from analysis.statistics.intervals import bootstrap_interval
from analysis.study import Study
from analysis.tables.factors import NothingToShowError, chosen, column_of
from analysis.tables.means import in_words
from analysis.tables.time import shift_table

Clock = Literal["version", "hours", "compute_hours"]
CLOCKS: Mapping[Clock, str] = {
    "version": "update",
    "hours": "hours",
    "compute_hours": "machine hours of work",
}


def curves_by_arm(
    study: Study,
    rng: np.random.Generator,
    name: str,
    *,
    metric: str | None = None,
    x: Clock = "version",
    line: str = "arm",
    arms: Sequence[str] = (),
    where: Mapping[str, Any] = NOWHERE,
    title: str | None = None,
    logarithmic: bool = False,
) -> list[Picture]:
    """A metric of the updates over updates, hours or machine hours; lines of several arms mix their runs.

    On a logarithmic height nothing at or below 0 is drawn; the figure says how many points that are.
    """
    if x not in get_args(Clock):
        raise ValueError(f"x is {x!r}; it is one of {', '.join(get_args(Clock))}")
    metric = metric or study.criteria.metric
    if metric not in study.updates.columns:
        raise ValueError(f"updates carry no {metric!r}; they have {', '.join(study.updates.columns)}")
    used = chosen(study.outcomes, {**where, "arm": list(arms)} if arms else where)
    table = curve_table(_labelled(study.updates, used, line), metric, x=x, rng=rng)
    if table.empty:
        raise NothingToShowError(f"no run measured {metric!r}")
    levels = {"chance": study.criteria.chance, "target": study.criteria.target}
    clocks = " and ".join(sorted(set(used["clock"])))
    last = table.groupby("arm", sort=False).last()
    said = "; ".join(
        f"{of} ends at {in_words(row['mean'], row['low'], row['high'])} after {row['x']:.3g},"
        f" n = {row['n']:.0f}"
        for of, row in last.iterrows()
    )
    return [
        Picture(
            title=title or f"{words(metric).capitalize()} by {CLOCKS[x]}",
            drawing=drawing(
                partial(
                    figures.mean_curves,
                    table,
                    look=looks_of(study, line),
                    x=CLOCKS[x] if x == "version" else f"{clocks} {CLOCKS[x]}",
                    y=words(metric),
                    levels=levels if metric == study.criteria.metric else None,
                    logarithmic=logarithmic,
                ),
                name=name,
            ),
            alt=f"{words(metric)} by {CLOCKS[x]}: {said}.",
            caption=f"Line: mean over {runs_in_words(table['n'])}; band: 95 % bootstrap interval over them;"
            f" a line ends where its shortest run does.{restriction(where)}",
        )
    ]


def recovery(
    study: Study,
    rng: np.random.Generator,
    name: str,
    *,
    line: str | None = None,
    back: int = 20,
    ahead: int | None = None,
    where: Mapping[str, Any] = NOWHERE,
) -> list[Picture]:
    """The score around the shifts of what is taught, and how long it takes to come back."""
    criteria = study.criteria
    if not criteria.shift_updates:
        raise ValueError("the study's criteria name no shift_updates")
    used = chosen(study.outcomes, where)
    line = line or default_line(study, but="")
    between = np.diff([*criteria.shift_updates, float(study.updates["version"].max())])
    ahead = ahead or max(1, int(between.min()))
    runs = zip(used["arm"], used["seed"], strict=True)
    of_runs = dict(zip(runs, used[column_of(used, line)].astype(str), strict=True))
    table = shift_table(study.updates, of_runs, criteria, back=back, ahead=ahead, rng=rng)
    said = "; ".join(
        f"{of} {_time(own['recovery_updates'], rng)}, {own['recovered_share'].mean():.0%} of shifts"
        for of, own in used.groupby(line, sort=False)
    )
    return [
        Picture(
            title="After a shift",
            drawing=drawing(
                partial(
                    figures.mean_curves,
                    table,
                    look=looks_of(study, line),
                    x="updates since the shift",
                    y=words(criteria.metric),
                ),
                name=name,
            ),
            alt=f"{words(criteria.metric).capitalize()} around the shifts. Updates until recovered: {said}.",
            caption=f"Mean over {len(criteria.shift_updates)} shifts, then over seeds. Updates until"
            f" {criteria.recovered_share:.0%} of the former level, a shift not recovered from counting"
            f" as long as it was watched: {said}.{restriction(where)}",
        )
    ]


def _time(values: pd.Series[float], rng: np.random.Generator) -> str:
    known = values.dropna()
    if known.empty:
        return "not measured"
    found = bootstrap_interval(known.to_numpy(dtype=float), rng=rng)
    return in_words(found.estimate, found.low, found.high)


def _labelled(updates: pd.DataFrame, used: pd.DataFrame, line: str) -> pd.DataFrame:
    """Updates of these runs, with their line as arm and every run as a seed of its own."""
    column_of(used, line)
    runs = used[["arm", "seed"]].assign(line=used[line].astype(str), run=range(len(used)))
    joined = updates.merge(runs, on=["arm", "seed"], how="inner")
    joined = joined.assign(arm=joined["line"], seed=joined["run"])
    order = {name: i for i, name in enumerate(dict.fromkeys(runs["line"]))}
    return joined.sort_values(
        ["arm", "seed", "version"], key=lambda c: c.map(order) if c.name == "arm" else c
    )
