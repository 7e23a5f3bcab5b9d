"""Figures of a study that show what the pipeline made of its settings: age, throughput, lengths."""

from __future__ import annotations

from collections.abc import Mapping
from functools import partial
from typing import Any

import numpy as np
import pandas as pd

from analysis.figures import length_bias as length_figures
from analysis.figures import parts as part_figures
from analysis.figures import trade as trade_figures
from analysis.figures.lines import runs_in_words
from analysis.figures.style import drawing, looks
from analysis.pictures.factors import NOWHERE, looks_of, restriction, words
from analysis.pictures.picture import Picture
from analysis.study import Study
from analysis.tables.factors import NothingToShowError, chosen
from analysis.tables.frontier import frontier_table
from analysis.tables.lag_parts import lag_parts_table
from analysis.tables.length_bias import length_bias_table
from analysis.tables.load import expected, lag_by_load
from analysis.tables.means import intervals_in_words

MOST_NAMED = 8
"""Settings beyond this are not told apart by looks; those on the frontier are named in the picture."""


def frontier(
    study: Study,
    rng: np.random.Generator,
    name: str,
    *,
    by: str = "arm",
    throughput: str = "updates_per_hour",
    where: Mapping[str, Any] = NOWHERE,
) -> list[Picture]:
    """Throughput against mean lag, and which settings no other beats in both."""
    used = chosen(study.outcomes, where)
    table = frontier_table(used, by=by, throughput=throughput, rng=rng)
    best = table.loc[table["best"]].sort_values("lag")
    if best.empty:
        raise NothingToShowError("no setting has a lag and a throughput")
    said = "; ".join(
        f"{name} lag {lag}, {fast}"
        for name, lag, fast in zip(
            best["name"],
            intervals_in_words(best, "lag", "lag_low", "lag_high"),
            intervals_in_words(best, "throughput", "throughput_low", "throughput_high", form="{:,.4g}"),
            strict=True,
        )
    )
    look = looks_of(study, by) if len(table) <= MOST_NAMED else None
    return [
        Picture(
            title="What does throughput cost in age?",
            drawing=drawing(
                partial(trade_figures.frontier, table, y=words(throughput), look=look),
                name=name,
            ),
            alt=f"{words(throughput)} against mean lag. On the frontier, the freshest first: {said}.",
            caption=f"Full: no other setting is as fast and fresher. Means over {runs_in_words(table['n'])}"
            f" a setting; bars: 95 % interval.{restriction(where)}",
            data=table,
        )
    ]


def lag_against_load(
    study: Study,
    rng: np.random.Generator,
    name: str,
    *,
    where: Mapping[str, Any] = NOWHERE,
) -> list[Picture]:
    """Mean lag against rho beside the closed form, which peaks at rho = 1."""
    points = lag_by_load(chosen(study.outcomes, where), rng=rng)
    if points.empty:
        raise NothingToShowError("no run has a load: lag was imposed, or the log is too short")
    said = "; ".join(
        f"rho {rho:.2f} lag {lag} ({line})"
        for rho, lag, line in zip(
            points["rho"], intervals_in_words(points, "lag"), points["line"], strict=True
        )
    )
    return [
        Picture(
            title="When is data oldest?",
            drawing=drawing(
                partial(
                    trade_figures.lag_by_load,
                    points,
                    expected(points),
                    look=looks(list(dict.fromkeys(points["line"]))),
                ),
                name=name,
            ),
            alt=f"Mean lag against rho: {said}.",
            caption=f"Means over {runs_in_words(points['n'])} a point after the first quarter of their"
            " updates, bars: 95 % interval. rho: rollouts that end while the trainer is busy with as many."
            " Line: closed form of slots that are always busy, with nothing that bounds the"
            f" lag.{restriction(where)}",
            data=points,
        )
    ]


def lag_parts(
    study: Study,
    rng: np.random.Generator,
    name: str,
    *,
    by: str = "arm",
    where: Mapping[str, Any] = NOWHERE,
) -> list[Picture]:
    """Mean lag by part, measured and by the closed form."""
    table = lag_parts_table(chosen(study.outcomes, where), by=by, rng=rng)
    if table.empty:
        raise NothingToShowError("no run has a lag that emerged from a pipeline")
    return [parts_picture(table, name=name, more=restriction(where))]


def parts_picture(table: pd.DataFrame, *, name: str, more: str = "") -> Picture:
    """The picture of `tables.lag_parts.lag_parts_table`, of a study or of one run."""
    measured, by_theory = (table.loc[table["who"] == who] for who in ("measured", "predicted"))
    said = "; ".join(
        f"{name} measured {lag}, closed form {f'{theory:.3g}' if np.isfinite(theory) else 'without end'}"
        for name, lag, theory in zip(
            measured["name"], intervals_in_words(measured, "lag"), by_theory["lag"], strict=True
        )
    )
    return Picture(
        title="Mean lag by part, and what theory expects",
        drawing=drawing(
            partial(part_figures.lag_parts, table), name=name, height_in=max(1.9, 1.2 + 0.5 * len(measured))
        ),
        alt=f"Mean lag of trained rollouts in updates: {said}.",
        caption="After the first quarter of the updates; mean over"
        f" {runs_in_words(table['n'])}, line: 95 % interval. Pale: closed form from each run's own slots,"
        f" batch, group and rho, if slots are always busy and nothing bounds the lag.{more}",
        data=table,
    )


def length_bias(
    study: Study,
    rng: np.random.Generator,
    name: str,
    *,
    by: str = "arm",
    where: Mapping[str, Any] = NOWHERE,
) -> list[Picture]:
    """Mean length generated and trained on."""
    table = length_bias_table(chosen(study.outcomes, where), by=by, rng=rng)
    if table.empty:
        raise NothingToShowError("no run trained on anything")
    said = "; ".join(
        f"{name} {ratio}"
        for name, ratio in zip(table["name"], intervals_in_words(table, "ratio"), strict=True)
    )
    return [
        Picture(
            title="Are trained answers as long as generated ones?",
            drawing=drawing(
                partial(length_figures.length_bias, table),
                name=name,
                height_in=max(1.9, 1.1 + 0.3 * len(table)),
            ),
            alt=f"Mean length trained on over mean length generated: {said}.",
            caption="Number: trained over generated, 1 without bias, with its 95 % interval over"
            f" {runs_in_words(table['n'])}.{restriction(where)}",
            data=table,
        )
    ]
