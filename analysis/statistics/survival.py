"""How long until it happens, when for some seeds it never did? Kaplan-Meier and log-rank, censored runs kept.

Source: Kaplan and Meier 1958, Mantel 1966, as in `scipy.stats.ecdf` and `scipy.stats.logrank`.
"""

from __future__ import annotations

import math
import warnings
from typing import Any

import numpy as np
import pandas as pd
from numpy.typing import NDArray
from scipy import stats

Floats = NDArray[np.float64]
Bools = NDArray[np.bool_]


def kaplan_meier(times: Floats, happened: Bools, *, confidence: float = 0.95) -> pd.DataFrame:
    """Share of seeds to which it has not happened yet: columns time, surviving, low, high, at_risk.

    A stall is no competing event here: it is read off a run's end, where the run is censored anyway, so its
    share is counted apart (`analysis.tables.fates`).

    Args:
        times: when it happened, or until when the seed was watched.
        happened: False for a seed that is censored at its time.
        confidence: of the pointwise interval, by Greenwood's formula for log(-log S), which stays in (0, 1);
            NaN where S is 0 or 1.

    References:
        Kalbfleisch and Prentice 1980, The Statistical Analysis of Failure Time Data, section 1.3.
    """
    surviving = stats.ecdf(censored(times, happened)).sf
    at = np.concatenate([[0.0], surviving.quantiles])
    with warnings.catch_warnings(), np.errstate(invalid="ignore", divide="ignore"):
        warnings.simplefilter("ignore", RuntimeWarning)  # scipy's, of the ends where there is no interval
        bounds: Any = surviving.confidence_interval(confidence, method="log-log")
    nowhere = np.array([np.nan])
    inside = (surviving.probabilities > 0) & (surviving.probabilities < 1)
    return pd.DataFrame(
        {
            "time": at,
            "surviving": np.concatenate([[1.0], surviving.probabilities]),
            "low": np.concatenate([nowhere, np.where(inside, bounds.low.probabilities, np.nan)]),
            "high": np.concatenate([nowhere, np.where(inside, bounds.high.probabilities, np.nan)]),
            "at_risk": [(times >= time).sum() for time in at],
        }
    )


def median_time(times: Floats, happened: Bools) -> float:
    """Time by which it happened to half of the seeds (Kaplan-Meier); infinite if it never did to half."""
    curve = kaplan_meier(times, happened)
    # 1e-12: products of shares such as (2/3)(3/4) must count as the half that they are
    below = curve.loc[curve["surviving"] <= 0.5 + 1e-12, "time"]
    return float(below.iloc[0]) if len(below) else math.inf


def logrank_p(times_a: Floats, happened_a: Bools, times_b: Floats, happened_b: Bools) -> float:
    """Two-sided p value that it happens at the same rate in both arms; NaN if it happened in neither."""
    if not (happened_a.any() or happened_b.any()) or min(len(times_a), len(times_b)) == 0:
        return math.nan
    with np.errstate(invalid="ignore", divide="ignore"):
        return float(stats.logrank(censored(times_a, happened_a), censored(times_b, happened_b)).pvalue)


def restricted(times: Floats, horizon: float) -> Floats:
    """min(time, horizon): a time that every seed has, if each was watched at least until the horizon."""
    return np.minimum(times, horizon)


def censored(times: Floats, happened: Bools) -> stats.CensoredData:
    return stats.CensoredData(uncensored=times[happened], right=times[~happened])
