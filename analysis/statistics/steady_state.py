r"""What is the long-run mean of one long run, and how sure is it? Warm-up removed, the rest in batches.

Neighbouring values of a simulation are alike, so their plain standard error is far too small. Means of long
batches are nearly independent; Student's t on them gives the interval. Where they are still alike, the run
is too short for an interval, and that is said.

- Warm-up: MSER-5. Of the means of five values each, the first d are left out that make the standard error of
  the rest smallest, :math:`\sum_{i > d} (y_i - \bar y_d)^2 / (k - d)^2`, with d in the first half.
- Batches: twenty, or ten where the run is too short for twenty (*choice*). After Law and Carson, whether they
  are long enough is asked of five times as many, whose lag-1 correlation is known better: at 0.4 there, that
  of the batches is about 0.05, and the interval a twentieth too short.

References:
    White 1997, https://doi.org/10.1177/003754979706900601, and White, Cobb and Spratt 2000,
    https://doi.org/10.1109/WSC.2000.899841, on MSER-5; Schmeiser 1982,
    https://doi.org/10.1287/opre.30.3.556, on ten to thirty batches; Law and Carson 1979,
    https://doi.org/10.1287/opre.27.5.1011, on their length.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Final, final

import numpy as np
from numpy.typing import ArrayLike, NDArray

from analysis.statistics.intervals import Interval, finite, t_interval

Floats = NDArray[np.float64]
GROUP: Final = 5
"""Values that MSER-5 takes together."""
BATCHES: Final = (20, 10)
FINER: Final = 5
ALIKE: Final = 0.4
"""Correlation of batches a fifth as long, above which the batches are not independent enough."""
FEWEST: Final = 100
"""Values below which a run has no steady state to speak of (*choice*): five in a batch."""
METHOD: Final = "Student t over batch means"


@final
@dataclass(frozen=True, slots=True, kw_only=True)
class SteadyState:
    """A long-run mean."""

    interval: Interval
    """`n` counts batches; no interval (NaN) where they are too alike, or the run has too few values."""
    warm_up: int
    """Values at the start that are left out; beyond the warm-up, what the batches do not divide."""
    correlation: float
    """Of each fifth of a batch with the next; NaN if it was not asked for."""
    note: str = ""
    """Why there is no interval."""


def steady_state(values: ArrayLike, *, confidence: float = 0.95) -> SteadyState:
    """Mean of a stationary series after its warm-up, with its interval.

    Args:
        values: in the order of time, equally spaced, shape (n,).

    Raises:
        ValueError: a value is not finite.
    """
    series = finite(values)
    if len(series) < FEWEST:
        mean = float(series.mean()) if len(series) else math.nan
        return _without(mean, 0, math.nan, confidence, f"{len(series)} values; {FEWEST} are needed")
    warm_up = mser5(series)
    rest = series[warm_up:]
    correlation = math.nan
    for batches in BATCHES:
        finer = FINER * batches
        if len(rest) < finer:
            continue
        correlation = lag_one_correlation(batch_means(rest, finer))
        if correlation <= ALIKE:
            interval, _ = t_interval(batch_means(rest, batches), confidence=confidence)
            left_out = len(rest) % batches
            named = Interval(
                estimate=interval.estimate,
                low=interval.low,
                high=interval.high,
                n=batches,
                confidence=confidence,
                method=METHOD,
            )
            return SteadyState(interval=named, warm_up=warm_up + left_out, correlation=correlation)
    why = f"a tenth of the run is like the next (correlation {correlation:.2f}): it is too short"
    return _without(float(rest.mean()), warm_up, correlation, confidence, why)


def mser5(values: Floats) -> int:
    """How many values at the start belong to the warm-up, a multiple of five and at most half of them."""
    groups = len(values) // GROUP
    means = values[: groups * GROUP].reshape(groups, GROUP).mean(axis=1)
    kept = groups - np.arange(groups // 2 + 1)
    # Sums from the end: of what is left when the first d are left out. Centred, or squares would cancel.
    centred = means - means.mean()
    first, second = (np.cumsum(part[::-1])[::-1][: len(kept)] for part in (centred, centred**2))
    error = np.maximum(second - first**2 / kept, 0.0) / kept.astype(float) ** 2
    return int(error.argmin()) * GROUP


def batch_means(values: Floats, batches: int) -> Floats:
    """Means of so many batches of equal length; what they do not divide is left out at the start."""
    length = len(values) // batches
    return np.asarray(values[len(values) - batches * length :].reshape(batches, length).mean(axis=1))


def lag_one_correlation(values: Floats) -> float:
    """Correlation of each value with the next; 0 for values that are all equal."""
    centred = values - values.mean()
    square = float(centred @ centred)
    return float(centred[:-1] @ centred[1:]) / square if square > 0 else 0.0


def _without(estimate: float, warm_up: int, correlation: float, confidence: float, why: str) -> SteadyState:
    nothing = Interval(
        estimate=estimate, low=math.nan, high=math.nan, n=0, confidence=confidence, method=METHOD
    )
    return SteadyState(interval=nothing, warm_up=warm_up, correlation=correlation, note=why)
