"""Figures of a study that show what the trainer saw: masks by sign, the critic, signs of trouble ahead."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping
from functools import partial
from typing import Any, Final, get_args

import numpy as np

from analysis.figures import masks as mask_figures
from analysis.figures.lines import runs_in_words
from analysis.figures.style import drawing
from analysis.pictures.factors import NOWHERE, default_line, restriction, words
from analysis.pictures.picture import Picture
from analysis.pictures.time import curves_by_arm
from analysis.study import Study
from analysis.tables.factors import NothingToShowError, chosen
from analysis.tables.masks import Lost, masks_by_sign

CRITIC: Final = {
    "explained_variance": ("How much of the returns does the critic explain?", False),
    "critic_gradient_norm": ("Gradient norm of the critic", True),
    "gradient_norm": ("Gradient norm of the policy", True),
}
"""Columns of updates, the title of their figure, and whether its height is logarithmic."""
RESPONSE: Final = "response_tokens"
WARNINGS: Final = {
    "entropy": "Entropy, an early warning",
    RESPONSE: "Response length, an early warning",
}


def masks(
    study: Study,
    rng: np.random.Generator,
    name: str,
    *,
    x: str = "lag",
    y: str = "eps_high",
    of: Lost = "masked",
    where: Mapping[str, Any] = NOWHERE,
) -> list[Picture]:
    """Share of tokens that were masked (or clipped) at each pair of settings, by the advantage's sign."""
    if of not in get_args(Lost):
        raise ValueError(f"of is {of!r}; it is one of {', '.join(get_args(Lost))}")
    used = chosen(study.outcomes, where)
    if f"{of}_fraction" not in study.updates.columns:
        raise NothingToShowError(f"no update recorded what was {of}")
    table = masks_by_sign(study.updates, used, x=x, y=y, of=of, rng=rng)
    if table.empty:
        raise NothingToShowError(f"no update recorded what was {of}")
    said = "; ".join(
        f"{sign} advantages {own['mean'].min():.2%} to {own['mean'].max():.2%}"
        for sign, own in table.groupby("sign", sort=False)
    )
    wide = float((table["high"] - table["low"]).max())
    width = f" The widest 95 % interval of a share is {wide:.2%} wide." if np.isfinite(wide) else ""
    rows = table["y"].nunique()
    return [
        Picture(
            title=f"{of.capitalize()} tokens by {words(x)} and {words(y)}",
            drawing=drawing(
                partial(mask_figures.split_cells, table, x=words(x), y=words(y)),
                name=name,
                height_in=max(3.0, 0.9 + 0.5 * rows),
            ),
            alt=f"Share of tokens {of}, by {words(x)} and {words(y)}: {said}.",
            caption=f"Share of all tokens, mean over {runs_in_words(table['n'])} a cell.{width}"
            f"{restriction(where)}",
            data=table,
        )
    ]


def critic(
    study: Study,
    rng: np.random.Generator,
    name: str,
    *,
    line: str | None = None,
    where: Mapping[str, Any] = NOWHERE,
) -> list[Picture]:
    """Explained variance and gradient norms by update."""
    return _curves(study, rng, name, CRITIC, line=line, where=where)


def early_warnings(
    study: Study,
    rng: np.random.Generator,
    name: str,
    *,
    line: str | None = None,
    where: Mapping[str, Any] = NOWHERE,
) -> list[Picture]:
    """Entropy and response length by update; the length is of the trained rollouts, in tokens."""
    updates = study.updates
    rollouts = updates["rollouts"].astype(float)
    length = updates["tokens"].astype(float) / rollouts.where(rollouts > 0)
    measured = dataclasses.replace(study, updates=updates.assign(**{RESPONSE: length}))
    shown = {metric: (title, False) for metric, title in WARNINGS.items()}
    return _curves(measured, rng, name, shown, line=line, where=where)


def _curves(
    study: Study,
    rng: np.random.Generator,
    name: str,
    shown: Mapping[str, tuple[str, bool]],
    *,
    line: str | None,
    where: Mapping[str, Any],
) -> list[Picture]:
    """One figure a metric that was measured, by update."""
    used = chosen(study.outcomes, where)
    runs = study.updates.loc[study.updates["arm"].isin(used["arm"])]
    measured = [metric for metric in shown if metric in runs.columns and runs[metric].notna().any()]
    if not measured:
        raise NothingToShowError(f"no update recorded {' or '.join(shown)}")
    line = line or default_line(study, but="")
    return [
        picture
        for metric in measured
        for picture in curves_by_arm(
            study,
            rng,
            f"{name}-{metric}",
            metric=metric,
            line=line,
            where=where,
            title=shown[metric][0],
            logarithmic=shown[metric][1],
        )
    ]
