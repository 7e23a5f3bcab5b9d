"""What is the mean over seeds, how sure is it, and over how many?"""

from __future__ import annotations

import numpy as np
import pandas as pd

from analysis.statistics.intervals import bootstrap_interval


def mean_over_seeds(values: pd.Series[float], *, rng: np.random.Generator) -> dict[str, float]:
    """mean, low, high (percentile bootstrap; NaN for one seed) and n of what is finite; NaN of nothing."""
    known = values.to_numpy(dtype=float)
    found = bootstrap_interval(known[np.isfinite(known)], rng=rng)
    return {"mean": found.estimate, "low": found.low, "high": found.high, "n": found.n}


def in_words(estimate: float, low: float, high: float, *, form: str = "{:.3g}") -> str:
    """`0.5 [0.4, 0.6]`, or the number alone where one seed gives no interval."""
    said = form.format(estimate)
    return f"{said} [{form.format(low)}, {form.format(high)}]" if np.isfinite([low, high]).all() else said


def intervals_in_words(
    table: pd.DataFrame, estimate: str = "mean", low: str = "low", high: str = "high", *, form: str = "{:.3g}"
) -> list[str]:
    """`in_words` of every row, from three of its columns."""
    numbers = table[[estimate, low, high]].to_numpy(dtype=float)
    return [in_words(*row, form=form) for row in numbers.tolist()]
