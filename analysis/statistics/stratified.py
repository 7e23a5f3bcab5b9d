"""What do runs of several tasks say together? Seeds are drawn anew within each task, never across tasks.

A stratum is one task (one lag, one rate) with its seeds. Drawn within strata, every sample keeps each task's
number of seeds, so what tasks differ by does not count as doubt. Runs count alike (*choice*): strata of
unequal size weigh by their seeds. With few seeds the intervals are too narrow, as those of
`analysis.statistics.intervals` are, and a share of none or all has none to speak of.

Source: Agarwal et al. 2021, https://arxiv.org/abs/2108.13264, sections 4.1 to 4.3; the resampling is
`scipy.stats.bootstrap`, which draws each of its samples on its own.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from functools import partial

import numpy as np
import pandas as pd
from numpy.typing import ArrayLike, NDArray
from scipy import stats

from analysis.statistics.intervals import RESAMPLES, Interval, finite, mean

Floats = NDArray[np.float64]
METHOD = "percentile bootstrap over seeds, by stratum"


def stratified_interval(
    strata: Sequence[ArrayLike],
    *,
    rng: np.random.Generator,
    statistic: Callable[..., Floats] = mean,
    confidence: float = 0.95,
    resamples: int = RESAMPLES,
) -> Interval:
    """A statistic of all runs together, with its stratified percentile bootstrap interval.

    Args:
        strata: scores by task, each of shape (seeds,).
        statistic: of (values, axis), such as `mean`, `iqm` or `partial(shortfall, target=...)`.

    Returns:
        No interval (NaN) where a stratum has one seed: what it would have been is not known.

    Raises:
        ValueError: a value is not finite.
    """
    samples = [finite(stratum) for stratum in strata]
    together = np.concatenate(samples) if samples else np.empty(0)
    low = high = math.nan
    if samples and min(map(len, samples)) > 1:
        low, high = map(float, _bounds(samples, statistic, rng, confidence, resamples))
    return Interval(
        estimate=float(statistic(together)) if len(together) else math.nan,
        low=low,
        high=high,
        n=len(together),
        confidence=confidence,
        method=METHOD,
    )


def shortfall(values: Floats, axis: int = -1, *, target: float) -> Floats:
    r"""Optimality gap: by how much runs miss the target on average, :math:`\mathrm{mean}\max(0, \tau - x)`.

    What is beyond the target makes up for nothing.
    """
    return np.asarray(np.maximum(0.0, target - values).mean(axis=axis))


def performance_profile(
    strata: Sequence[ArrayLike],
    thresholds: Floats,
    *,
    rng: np.random.Generator,
    confidence: float = 0.95,
    resamples: int = 999,
) -> pd.DataFrame:
    r"""Share of runs whose score is above :math:`\tau`, :math:`\hat F(\tau) = |\{i : x_i > \tau\}| / n`.

    Args:
        strata: scores by task, each of shape (seeds,).
        thresholds: the values of tau, in the score's unit, shape (points,).

    Returns:
        Columns threshold, share, low, high: a pointwise band, NaN where a stratum has one seed.
    """
    above = [(finite(stratum) > thresholds[:, None]).astype(float) for stratum in strata]
    low = high = np.full(len(thresholds), math.nan)
    if min(own.shape[1] for own in above) > 1:
        low, high = _bounds(above, mean, rng, confidence, resamples)
    share = mean(np.concatenate(above, axis=1))
    return pd.DataFrame({"threshold": thresholds, "share": share, "low": low, "high": high})


def _bounds(
    samples: Sequence[Floats],
    statistic: Callable[..., Floats],
    rng: np.random.Generator,
    confidence: float,
    resamples: int,
) -> tuple[Floats, Floats]:
    """Interval of a statistic of all samples together; seeds on the last axis."""
    found = stats.bootstrap(
        samples,
        partial(_of_all, statistic),
        axis=-1,
        vectorized=True,
        method="percentile",
        confidence_level=confidence,
        n_resamples=resamples,
        batch=256,
        rng=rng,
    ).confidence_interval
    return np.asarray(found.low), np.asarray(found.high)


def _of_all(statistic: Callable[..., Floats], *samples: Floats, axis: int) -> Floats:
    return statistic(np.concatenate(samples, axis=axis), axis=axis)
