"""Which share of runs gets beyond each score? One figure, a line an estimator or arm."""

from __future__ import annotations

from functools import partial

import numpy as np

from analysis.figures.lines import mean_curves
from analysis.figures.style import drawing, looks
from analysis.pictures.picture import Picture
from analysis.tables.comparison import Lines, profiles


def profile_picture(lines: Lines, metric: str, *, rng: np.random.Generator) -> Picture:
    """Performance profiles of all lines."""
    table = profiles(lines, rng=rng)
    middles = {line: float(np.median(np.concatenate(strata))) for line, strata in lines.scores.items()}
    said = "; ".join(f"{line}: half of the runs above {middle:.3g}" for line, middle in middles.items())
    score = f"final {metric.replace('_', ' ')}"
    return Picture(
        title="How many runs get how far?",
        drawing=drawing(
            partial(mean_curves, table, look=looks(list(lines.scores)), x=score, y="share of runs above it"),
            name="profile",
        ),
        alt=f"Share of runs above each {score}, a line per {lines.by}. {said}.",
        caption="A line above another at every score is better throughout. Band: pointwise 95 % bootstrap"
        " over seeds within tasks; where all or none are above, it cannot be drawn.",
    )
