"""What do many runs say together? Quantities fitted across arms, each with an interval over seeds.

`FITS` has a function of the outcomes for every name of `simulator.studies.hypothesis.FITTED`; what is in
`BESIDE` is shown with them, and no claim is judged by it. A quantity
that the runs cannot give is NaN with a sentence that says why; it is never left out in silence.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from functools import partial
from typing import Final

import numpy as np
import pandas as pd

from analysis.fits.accelerated_failure import accelerated_failure
from analysis.fits.alarm import alarm_false, alarm_lead, alarm_missed
from analysis.fits.boundary import boundary_exponent
from analysis.fits.collapse_time import collapse_time
from analysis.fits.drift import drift_exponent
from analysis.fits.record import Draw, Fit

RESAMPLES: Final = 999
SEED: Final = 20241
"""Of the bootstrap; fixed, so that the same runs give the same interval."""

FITS: Final[dict[str, Callable[[pd.DataFrame, Draw], Fit]]] = {
    "boundary_exponent": boundary_exponent,
    "collapse_time_learning_rate": partial(collapse_time, of="learning_rate"),
    "collapse_time_lag": partial(collapse_time, of="lag"),
    "drift_exponent_k1": partial(drift_exponent, of="k1"),
    "drift_exponent_k3": partial(drift_exponent, of="k3"),
    "alarm_lead_updates": alarm_lead,
    "alarm_false_share": alarm_false,
    "alarm_missed_share": alarm_missed,
}

BESIDE: Final[dict[str, Callable[[pd.DataFrame, Draw], Fit]]] = {
    "accelerated_failure_learning_rate": partial(accelerated_failure, of="learning_rate"),
    "accelerated_failure_lag": partial(accelerated_failure, of="lag"),
}

WORDS: Final[Mapping[str, str]] = {
    "boundary_exponent": "x of: largest stable learning rate ~ lag^-x",
    "collapse_time_learning_rate": "b of: (collapse update - lag) ~ learning rate^-b lag^-c",
    "collapse_time_lag": "c of: (collapse update - lag) ~ learning rate^-b lag^-c",
    "drift_exponent_k1": "slope of log KL (k1) against log lag",
    "drift_exponent_k3": "slope of log KL (k3) against log lag",
    "alarm_lead_updates": "median updates from the cosine's alarm to the collapse",
    "alarm_false_share": "share of runs that never collapsed, with an alarm",
    "alarm_missed_share": "share of collapses without an alarm before",
    "accelerated_failure_learning_rate": "b by accelerated failure, runs that held out censored",
    "accelerated_failure_lag": "c by accelerated failure, runs that held out censored",
}
"""What each is, in a line."""


def fit(
    name: str,
    outcomes: pd.DataFrame,
    *,
    arms: Sequence[str] = (),
    confidence: float = 0.95,
    resamples: int = RESAMPLES,
    rng: np.random.Generator | None = None,
) -> Fit:
    """Fit one quantity.

    Args:
        name: a key of `FITS` or `BESIDE`.
        outcomes: one row a run (`analysis.measures.outcomes`), factors included (`study.with_factors`).
        arms: whose runs; all if empty.

    Raises:
        ValueError: an arm that has no run.
    """
    unknown = [arm for arm in arms if arm not in set(outcomes["arm"])]
    if unknown:
        raise ValueError(f"{name} is to be fitted to {unknown}, of which there is no run")
    table = outcomes.loc[outcomes["arm"].isin(arms)] if arms else outcomes
    draw = Draw(rng=rng or np.random.default_rng(SEED), resamples=resamples, confidence=confidence)
    return (FITS | BESIDE)[name](table.reset_index(drop=True), draw)


def fit_table(outcomes: pd.DataFrame) -> pd.DataFrame:
    """Every quantity that has been measured, for each estimator apart where that is a factor.

    Returns:
        Columns estimator, quantity, estimate, low, high, runs, note, of dtype object where words.
    """
    rows: list[dict[str, object]] = []
    groups = outcomes.groupby("estimator", sort=False) if "estimator" in outcomes else [("all", outcomes)]
    for estimator, own in groups:
        for name in FITS | BESIDE:
            if not _asked(name, own):
                continue
            found = fit(name, own)
            rows.append(
                {
                    "estimator": estimator,
                    "quantity": name,
                    "estimate": found.interval.estimate,
                    "low": found.interval.low,
                    "high": found.interval.high,
                    "runs": found.runs,
                    "note": found.note,
                }
            )
    return pd.DataFrame(rows, columns=["estimator", "quantity", "estimate", "low", "high", "runs", "note"])


def _asked(name: str, own: pd.DataFrame) -> bool:
    """Is the question about these runs at all? A grid of rates and lags, a range of lags, cosines."""
    levels = {factor: own[factor].nunique() for factor in ("lag", "learning_rate") if factor in own}
    if name.startswith("alarm"):
        return bool(own[["false_alarm", "missed_collapse"]].notna().any(axis=None))
    if name.startswith("drift"):
        return levels.get("lag", 0) > 1 and bool(own[name.rsplit("_", 1)[1]].notna().any())
    return levels.get("lag", 0) > 1 and levels.get("learning_rate", 0) > 1
