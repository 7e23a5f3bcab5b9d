"""Figures of a study that show which runs collapsed, when, and what came before."""

from __future__ import annotations

from collections.abc import Mapping
from functools import partial
from typing import Any

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from analysis.figures import collapse as collapse_figures
from analysis.figures import phase as phase_figures
from analysis.figures.factors import level_name
from analysis.figures.style import drawing, looks
from analysis.fits.boundary import boundary
from analysis.fits.collapse_time import collapsing
from analysis.fits.record import Draw
from analysis.measures.alarm import COSINE
from analysis.pictures.factors import NOWHERE, default_line, looks_of, restriction
from analysis.pictures.picture import Picture
from analysis.statistics.survival import logrank_p
from analysis.study import Study
from analysis.tables.factors import NothingToShowError, by_two, chosen, column_of, fewest
from analysis.tables.numbers import p_value
from analysis.tables.time import cosine_table


def phase_diagram(
    study: Study, rng: np.random.Generator, name: str, *, where: Mapping[str, Any] = NOWHERE
) -> list[Picture]:
    """Share of seeds that collapsed by lag and learning rate, with the boundary and slope -1."""
    used = chosen(study.outcomes, where)
    table = by_two(used, x="lag", y="learning_rate", metric="collapsed")
    fitted, why, _ = boundary(used, Draw(rng=rng, resamples=0, confidence=0.95))
    exponent = None
    if fitted is not None and fitted[0, 1] > 0:
        offset, rate, lag = fitted[0].tolist()
        exponent = (float(np.exp(-offset / rate)), lag / rate)
    said = f"fitted slope {-exponent[1]:.2f}" if exponent else "no boundary fitted"
    said = f"{said}; {why}" if why else said
    known = table.stack().dropna()
    if known.empty:
        raise NothingToShowError("no run has a lag and a learning rate")
    times = used.pivot_table(
        index="learning_rate", columns="lag", values="collapsed_at_update", aggfunc="median", dropna=False
    ).reindex_like(table)
    late = times.stack().dropna()
    when = f"; after {late.min():,.0f} to {late.max():,.0f} updates" if len(late) else ""
    return [
        Picture(
            title="Where it collapses, and when",
            drawing=drawing(
                partial(
                    phase_figures.phase_diagram,
                    table,
                    x="lag (updates)",
                    y="learning rate",
                    exponent=exponent,
                    times=times,
                ),
                name=name,
                height_in=3.4,
            ),
            alt=f"Share of collapsed seeds by lag and learning rate, {known.min():.0%} to {known.max():.0%}"
            f"{when}; {said}.",
            caption=f"At least {fewest(used, x='lag', y='learning_rate')} seeds a cell: the share that"
            f" collapsed, and under it the median update at which. Line: half of them collapse ({said});"
            f" dashes: largest rate as one over the lag.{restriction(where)}",
            data=table.melt(ignore_index=False, value_name="collapsed")
            .reset_index()
            .assign(median_update=times.melt()["value"].to_numpy()),
        )
    ]


def collapse_times(
    study: Study,
    rng: np.random.Generator,  # noqa: ARG001 - every kind is called alike
    name: str,
    *,
    where: Mapping[str, Any] = NOWHERE,
) -> list[Picture]:
    """When it collapsed: (t_c - S) eta by cell."""
    used = chosen(study.outcomes, where)
    for factor in ("lag", "learning_rate"):
        column_of(used, factor)
    broken = used.loc[used["collapsed"].astype(bool)]
    if broken.empty:
        raise NothingToShowError("no run collapsed")
    shown, left_out = collapsing(broken)
    total = (shown["event_update"] - shown["lag"]) * shown["learning_rate"]
    look = looks([level_name(lag) for lag in sorted(set(used["lag"]))])
    spread = (
        f"median {total.median():.3g}, 80 % between {total.quantile(0.1):.3g} and {total.quantile(0.9):.3g}"
    )
    return [
        Picture(
            title="Steps times rate until collapse",
            drawing=drawing(partial(collapse_figures.collapse_times, broken, look=look), name=name),
            alt=f"(Collapse update - lag) x learning rate of {len(shown)} collapses: {spread}.",
            caption=f"Small: {len(shown)} runs; large: medians. {spread.capitalize()}."
            f" {left_out}{restriction(where)}",
        )
    ]


def survival(
    study: Study,
    rng: np.random.Generator,  # noqa: ARG001 - every kind is called alike
    name: str,
    *,
    line: str | None = None,
    where: Mapping[str, Any] = NOWHERE,
) -> list[Picture]:
    """Kaplan-Meier curves with numbers at risk, and log-rank tests against the first line."""
    used = chosen(study.outcomes, where)
    used = used.loc[used["fate"] != "not measured"]
    if used.empty:
        raise NothingToShowError("no run measured whether it learned")
    line = line or default_line(study, but="")
    used = used.assign(line=used[column_of(used, line)].astype(str))
    look = looks_of(study, line)
    lines = list(used.groupby("line", sort=False))
    said = "; ".join(f"{of}: {own['collapsed'].sum()} of {len(own)} collapsed" for of, own in lines)
    return [
        Picture(
            title="Seeds still standing",
            drawing=drawing(
                partial(collapse_figures.survival, used, look=look),
                name=name,
                height_in=3.2 + 0.18 * len(lines),
            ),
            alt=f"Kaplan-Meier curves. {said}.",
            caption="Kaplan-Meier with its pointwise 95 % band; a run that ended unbroken is censored there."
            f"{_against_first(lines)}{restriction(where)}",
        )
    ]


def _against_first(lines: list[tuple[Any, pd.DataFrame]]) -> str:
    """Log-rank tests of each line against the first, in words."""
    if len(lines) < 2:
        return ""
    (first, base), *others = lines
    tests = ", ".join(f"{line} {p_value(logrank_p(*_events(own), *_events(base)))}" for line, own in others)
    return f" Log-rank against {first}: {tests} (not corrected for their number)."


def _events(runs: pd.DataFrame) -> tuple[NDArray[np.float64], NDArray[np.bool_]]:
    return runs["event_update"].to_numpy(dtype=float), runs["collapsed"].to_numpy(dtype=bool)


def cosine(
    study: Study,
    rng: np.random.Generator,
    name: str,
    *,
    back: int = 200,
    where: Mapping[str, Any] = NOWHERE,
) -> list[Picture]:
    """Cosine of consecutive gradients before collapses, and in runs that never collapsed."""
    if COSINE not in study.updates.columns:
        raise ValueError(f"updates carry no {COSINE!r}")
    used = chosen(study.outcomes, where)
    table = cosine_table(study.updates, used, study.criteria, back=back, rng=rng)
    if table.empty:
        raise NothingToShowError(f"no run measured {COSINE!r}")
    criteria = study.criteria
    missed, wrong = used["missed_collapse"].dropna(), used["false_alarm"].dropna()
    said = (
        f"Of {len(missed)} collapses, {missed.sum():.0f} had no alarm before; of {len(wrong)} runs that never"
        f" collapsed, {wrong.sum():.0f} had one."
    )
    return [
        Picture(
            title="Does the gradient give warning?",
            drawing=drawing(
                partial(
                    collapse_figures.cosines,
                    table,
                    look=looks(list(dict.fromkeys(table["line"]))),
                    alarm=criteria.alarm_cosine,
                ),
                name=name,
            ),
            alt=f"Cosine of consecutive gradients before the collapse. {said}",
            caption=f"Mean over the last {criteria.alarm_window_updates} updates; the alarm is at"
            f" {criteria.alarm_cosine:g}. {said}{restriction(where)}",
        )
    ]
