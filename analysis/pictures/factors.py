"""Figures of a study that show outcomes by the settings of its arms."""

from __future__ import annotations

from collections.abc import Mapping
from functools import partial
from typing import Any

import numpy as np
import pandas as pd

from analysis.figures import factors as factor_figures
from analysis.figures.lines import runs_in_words
from analysis.figures.style import Look, drawing, looks
from analysis.pictures.picture import Picture
from analysis.study import Study
from analysis.tables.factors import NothingToShowError, by_factor, by_two, chosen, column_of, fewest
from analysis.tables.means import in_words

NOWHERE: Mapping[str, Any] = {}


def score_by_factor(
    study: Study,
    rng: np.random.Generator,
    name: str,
    *,
    factor: str = "lag",
    line: str | None = None,
    metric: str = "final_score",
    where: Mapping[str, Any] = NOWHERE,
    title: str | None = None,
) -> list[Picture]:
    """An outcome (by default the final score) against a factor, one line a level of another."""
    used = chosen(study.outcomes, where)
    line = line or default_line(study, but=factor)
    table = by_factor(used, factor=factor, line=line, metric=metric, rng=rng)
    if table.empty:
        raise NothingToShowError(f"no run measured {metric!r}")
    criteria = study.criteria
    levels = {"chance": criteria.chance, "target": criteria.target} if metric == "final_score" else None
    drawn = drawing(
        partial(
            factor_figures.lines_by_factor,
            table,
            look=looks_of(study, line),
            x=words(factor),
            y=words(metric),
            levels=levels,
        ),
        name=name,
    )
    return [
        Picture(
            title=title or f"{words(metric).capitalize()} by {words(factor)}",
            drawing=drawn,
            alt=f"{words(metric)} against {words(factor)}: {ends(table)}.",
            caption=f"Mean over {runs_in_words(table['n'])} a point with its 95 % interval."
            f"{restriction(where)}",
        )
    ]


def heat_map(
    study: Study,
    rng: np.random.Generator,  # noqa: ARG001 - every kind is called alike
    name: str,
    *,
    x: str,
    y: str,
    metric: str = "final_score",
    form: str = "{:.2f}",
    where: Mapping[str, Any] = NOWHERE,
    title: str | None = None,
) -> list[Picture]:
    """An outcome at each pair of levels of two factors."""
    used = chosen(study.outcomes, where)
    table = by_two(used, x=x, y=y, metric=metric)
    known = table.stack().dropna()
    if known.empty:
        raise NothingToShowError(f"no run measured {metric!r}")
    said = f"from {known.min():.3g} to {known.max():.3g}"
    return [
        Picture(
            title=title or f"{words(metric).capitalize()} by {words(x)} and {words(y)}",
            drawing=drawing(
                partial(factor_figures.heat_map, table, x=words(x), y=words(y), form=form), name=name
            ),
            alt=f"{words(metric)} by {words(x)} and {words(y)}, {said}.",
            caption=f"Mean over at least {fewest(used, x=x, y=y)} runs a cell.{restriction(where)}",
        )
    ]


def default_line(study: Study, *, but: str) -> str:
    """One line an estimator where that was varied, else one line an arm."""
    return "estimator" if "estimator" in study.factors and but != "estimator" else "arm"


def looks_of(study: Study, line: str) -> dict[str, Look]:
    """A look for each line, the same in every figure that has these lines."""
    column_of(study.outcomes, line)
    return looks([str(name) for name in dict.fromkeys(study.outcomes[line].dropna())])


def ends(table: pd.DataFrame) -> str:
    """First and last point of each line with their intervals, in words."""
    return "; ".join(
        f"{line} "
        + ", ".join(
            f"{in_words(*(own[column].iloc[i] for column in ('mean', 'low', 'high')))} at"
            f" {factor_figures.level_name(own['level'].iloc[i])}"
            for i in sorted({0, len(own) - 1})
        )
        for line, own in table.groupby("line", sort=False)
    )


def words(name: str) -> str:
    return name.replace("_", " ")


def restriction(where: Mapping[str, Any]) -> str:
    """Which runs a figure is of, in words."""
    if not where:
        return ""
    parts = (
        f"{words(name)} {', '.join(map(str, value)) if isinstance(value, (list, tuple)) else value}"
        for name, value in where.items()
    )
    return f" Runs with {'; '.join(parts)}."
