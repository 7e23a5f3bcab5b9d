"""Figures of a study that show outcomes by the settings of its arms."""

from __future__ import annotations

from collections.abc import Mapping
from functools import partial
from typing import Any

import numpy as np
import pandas as pd

from analysis.figures import factors as factor_figures
from analysis.figures.style import Look, looks, svg
from analysis.fits.record import with_lag
from analysis.pictures.picture import Picture
from analysis.study import Study
from analysis.tables.factors import by_factor, by_two, chosen, column_of, fewest

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
    criteria = study.criteria
    levels = {"chance": criteria.chance, "target": criteria.target} if metric == "final_score" else None
    drawn = svg(
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
            svg=drawn,
            alt=f"{words(metric)} against {words(factor)}: {ends(table)}.",
            caption=f"Mean over seeds with its 95 % interval.{restriction(where)}",
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
    said = f"from {known.min():.3g} to {known.max():.3g}" if len(known) else "nothing measured"
    return [
        Picture(
            title=title or f"{words(metric).capitalize()} by {words(x)} and {words(y)}",
            svg=svg(partial(factor_figures.heat_map, table, x=words(x), y=words(y), form=form), name=name),
            alt=f"{words(metric)} by {words(x)} and {words(y)}, {said}.",
            caption=f"Mean over at least {fewest(used, x=x, y=y)} runs a cell.{restriction(where)}",
        )
    ]


def drift_by_lag(
    study: Study,
    rng: np.random.Generator,
    name: str,
    *,
    of: str = "k3",
    ess: str = "ess_token",
    tokens: int = 1,
    line: str | None = None,
    where: Mapping[str, Any] = NOWHERE,
) -> list[Picture]:
    """KL and effective sample size against lag; `tokens` are those that one weight of the ESS is made of."""
    used = with_lag(chosen(study.outcomes, where))
    line = line or default_line(study, but="lag")
    drift = by_factor(used, factor="lag", line=line, metric=of, rng=rng)
    size = by_factor(used, factor="lag", line=line, metric=ess, rng=rng)
    look = looks_of(study, line)
    predicted = drift.assign(mean=np.exp(-2 * tokens * drift["mean"]))
    predicted = predicted.assign(low=np.nan, high=np.nan, line=[f"theory, {own}" for own in drift["line"]])
    theory = {
        f"theory, {own}": Look(colour=style.colour, dash=(0, (1, 2)), marker="")
        for own, style in look.items()
    }
    slopes = {"slope 1 (diffusive)": 1.0, "slope 2 (ballistic)": 2.0}
    styles = look | theory
    caption = f"Mean over each run's updates, then over seeds, with its 95 % interval.{restriction(where)}"
    return [
        Picture(
            title=f"Drift by lag ({of})",
            svg=svg(
                partial(
                    factor_figures.lines_on_logs,
                    drift,
                    look=styles,
                    x="lag (updates)",
                    y=f"{of} (nats a token)",
                    slopes=slopes,
                ),
                name=f"{name}-kl",
            ),
            alt=f"KL between sampling and training against lag: {ends(drift)}.",
            caption=caption,
        ),
        Picture(
            title="Effective sample size by lag",
            svg=svg(
                partial(
                    factor_figures.lines_by_factor,
                    pd.concat([size, predicted], ignore_index=True),
                    look=styles,
                    x="lag (updates)",
                    y=f"{words(ess)} (share)",
                ),
                name=f"{name}-ess",
            ),
            alt=f"Effective sample size against lag: {ends(size)}.",
            caption=f"Theory: exp(-2 x {tokens} x {of}), of log-ratios that are normal and independent.",
        ),
    ]


def default_line(study: Study, *, but: str) -> str:
    """One line an estimator where that was varied, else one line an arm."""
    return "estimator" if "estimator" in study.factors and but != "estimator" else "arm"


def looks_of(study: Study, line: str) -> dict[str, Look]:
    """A look for each line, the same in every figure that has these lines."""
    column_of(study.outcomes, line)
    return looks([str(name) for name in dict.fromkeys(study.outcomes[line].dropna())])


def ends(table: pd.DataFrame) -> str:
    """First and last point of each line, in words."""
    return "; ".join(
        f"{line} {own['mean'].iloc[0]:.3g} at {factor_figures.level_name(own['level'].iloc[0])}, "
        f"{own['mean'].iloc[-1]:.3g} at {factor_figures.level_name(own['level'].iloc[-1])}"
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
