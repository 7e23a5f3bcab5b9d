"""How heavy is the tail of the ratios? The survival function of absolute log-ratios, from their quantiles.

An update records p50, p90, p99 and p99.9 of its tokens. Quantiles cannot be pooled exactly without the
tokens; here the quantiles of a run are the token-weighted means of those of its updates (*choice*: averaging
quantiles keeps the shape of the updates' laws, where pooling their tokens would mix the scales of early and
late updates), and those of a line the means over its runs.

References:
    Ratcliff 1979, on averaging quantiles, https://doi.org/10.1037/0033-2909.86.3.446.
"""

from __future__ import annotations

from typing import Final

import numpy as np
import pandas as pd

from analysis.measures.outcomes import token_mean
from analysis.tables.factors import column_of
from analysis.tables.means import mean_over_seeds

BEYOND: Final = {
    "log_ratio_p50": 0.5,
    "log_ratio_p90": 0.1,
    "log_ratio_p99": 0.01,
    "log_ratio_p99_9": 0.001,
}
"""Columns of `updates`, and the share of tokens beyond them."""
COLUMNS: Final = ("line", "beyond", "mean", "low", "high", "n")


def tail_table(
    updates: pd.DataFrame, outcomes: pd.DataFrame, *, line: str, rng: np.random.Generator
) -> pd.DataFrame:
    """One row a line and share: mean over runs of the quantile that this share of tokens exceeds (nats).

    Args:
        updates: of the runs, with arm and seed.
        outcomes: the runs that count, with their line.

    Returns:
        Columns line, beyond, mean, low, high, n; without rows where no quantile was recorded.
    """
    by_run = dict(iter(updates.groupby(["arm", "seed"], sort=False)))
    rows: list[dict[str, object]] = []
    for name, own in outcomes.groupby(column_of(outcomes, line), sort=False):
        runs = [by_run[key] for key in zip(own["arm"], own["seed"], strict=True) if key in by_run]
        for column, beyond in BEYOND.items():
            values = pd.Series([token_mean(run, column) for run in runs], dtype=float)
            found = mean_over_seeds(values, rng=rng)
            if found["n"]:
                rows.append({"line": str(name), "beyond": beyond, **found})
    return pd.DataFrame(rows, columns=list(COLUMNS))
