"""Which seeds might have been drawn instead? A bootstrap over seeds, arm by arm, as weights of runs.

An arm's runs are drawn anew from that arm, so every arm keeps its number of seeds. A drawn sample is a row of
counts: whatever is fitted takes weights, and all samples are fitted at once.
"""

from __future__ import annotations

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from analysis.statistics.intervals import Interval

Floats = NDArray[np.float64]
METHOD = "percentile bootstrap over seeds, by arm"
LOST = 0.05
"""Share of samples to which nothing could be fitted, beyond which there is no interval (*choice*)."""


def seed_weights(arms: pd.Series[str], *, rng: np.random.Generator, resamples: int) -> Floats:
    """How often each run is in each sample: shape (1 + resamples, runs); the first is what was observed."""
    weights = np.ones((1 + resamples, len(arms)))
    for places in arms.reset_index(drop=True).groupby(arms.to_numpy()).groups.values():
        drawn = rng.multinomial(len(places), np.full(len(places), 1 / len(places)), size=resamples)
        weights[1:, np.asarray(places)] = drawn
    return weights


def membership(arms: pd.Series[str]) -> tuple[NDArray[np.str_], NDArray[np.bool_]]:
    """The arms, and which run is of which: shape (runs, arms)."""
    names, place = np.unique(arms.to_numpy(dtype=str), return_inverse=True)
    return names, place[:, None] == np.arange(len(names))


def percentiles(samples: Floats, *, n: int, confidence: float) -> tuple[Interval, str]:
    """Estimate and interval from the fits to observed and drawn samples, and what was lost, in words."""
    drawn = samples[1:]
    known = drawn[np.isfinite(drawn)]
    lost = len(drawn) - len(known)
    low = high = float("nan")
    if np.isfinite(samples[0]) and len(known) and lost <= LOST * len(drawn):
        tail = (1 - confidence) / 2
        low, high = np.quantile(known, [tail, 1 - tail]).tolist()
    interval = Interval(
        estimate=float(samples[0]), low=low, high=high, n=n, confidence=confidence, method=METHOD
    )
    return interval, f"{lost} of {len(drawn)} drawn samples could not be fitted" if lost else ""


def weighted_median(values: Floats, weights: Floats) -> Floats:
    """Smallest value at or below which half of a row's weight lies; NaN without weight."""
    order = np.argsort(values)
    reach = np.cumsum(weights[:, order], axis=1)
    total = reach[:, -1]
    first = (reach >= total[:, None] / 2).argmax(axis=1)
    return np.where(total > 0, values[order][first], np.nan)
