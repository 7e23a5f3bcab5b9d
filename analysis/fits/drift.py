"""How does the drift between sampling and training grow with the lag?

Least squares of log KL on log lag over runs that did not collapse (*choice*: after it, the drift is not that
of learning), with log learning rate beside it where that varies. A random walk of the weights gives the slope
1 (diffusive), a steady march 2 (ballistic).
"""

from __future__ import annotations

import numpy as np
import pandas as pd

from analysis.fits.record import (
    MINIMUM_EVENTS,
    Draw,
    Fit,
    drawn_weights,
    fewest_seeds,
    no_fit,
    varies,
    with_lag,
)
from analysis.statistics.regression import least_squares
from analysis.statistics.resampling import percentiles


def drift_exponent(table: pd.DataFrame, draw: Draw, *, of: str) -> Fit:
    """Slope of log `of` (k1 or k3, nats a token, mean over the run) against log lag."""
    table = with_lag(table)
    healthy = table.loc[~table["collapsed"].astype(bool) & (table["lag"] > 0)]
    used = healthy.loc[healthy[of] > 0]
    if len(used) < MINIMUM_EVENTS or not varies(used["lag"]):
        return no_fit(f"{len(used)} runs with lag and drift, {used['lag'].nunique()} lags", used, draw)
    rated = "learning_rate" in used.columns and varies(used["learning_rate"])
    columns = ["lag", "learning_rate"] if rated else ["lag"]
    logs = np.log(used[columns].to_numpy(dtype=float))
    design = np.column_stack([np.ones(len(used)), logs - logs.mean(axis=0)])
    weights = drawn_weights(table, used, draw)
    slopes = least_squares(design, np.log(used[of].to_numpy(dtype=float)), weights)[:, 1]
    interval, lost = percentiles(slopes, n=len(used), confidence=draw.confidence)
    unknown = len(healthy) - len(used)
    notes = [f"{unknown} runs left out: no positive {of}" if unknown else "", lost]
    return Fit(
        interval=interval,
        runs=f"{len(used)} runs that did not collapse, {used['arm'].nunique()} arms",
        seeds=fewest_seeds(table, used),
        note="; ".join(note for note in notes if note),
    )
