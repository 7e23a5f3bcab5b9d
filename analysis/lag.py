"""How old was the data? Lag in updates: the trainer's version when training started, less the token's.

A rollout whose tokens come from several versions has an oldest, a mean and a newest lag, and they are
never called just "lag": the oldest decides admission and dropping, the token-weighted mean is what the
loss sees. Lag is defined only for rollouts that met the trainer: trained, in training, or dropped.
"""

from __future__ import annotations

from collections.abc import Collection
from typing import Final

import numpy as np
import pandas as pd
from numpy.typing import NDArray

POPULATIONS: Final = {
    "offered": ("trained", "training", "dropped"),
    "trained": ("trained",),
    "dropped": ("dropped",),
}
"""Which statuses make up a population. Reporting only one of them hides what a rule threw away."""

QUANTILE_METHOD: Final = "linear interpolation"
WEIGHTED_QUANTILE_METHOD: Final = "inverted weighted CDF"


def token_lags(rollouts: pd.DataFrame, segments: pd.DataFrame) -> pd.DataFrame:
    """One row a segment that has tokens: rollout_id, status, lag (updates), tokens."""
    consumed = rollouts.loc[
        rollouts["consumed_version"].notna(), ["rollout_id", "status", "consumed_version"]
    ]
    joined = segments.loc[segments["tokens"] > 0, ["rollout_id", "version", "tokens"]].merge(
        consumed, on="rollout_id", validate="many_to_one"
    )
    joined["lag"] = joined["consumed_version"] - joined["version"]
    if (joined["lag"] < 0).any():
        worst = joined.iloc[int(joined["lag"].to_numpy().argmin())]
        raise ValueError(
            f"rollout {worst['rollout_id']} was consumed at version {worst['consumed_version']:.0f} "
            f"with tokens of version {worst['version']:.0f}: a token cannot be newer than the trainer"
        )
    return joined[["rollout_id", "status", "lag", "tokens"]]


def rollout_lags(rollouts: pd.DataFrame, segments: pd.DataFrame) -> pd.DataFrame:
    """One row a rollout that reached the trainer, in updates.

    Columns: rollout_id, status, oldest, newest, mean (weighted by tokens), mean_over_segments (each
    version counts once), tokens. A placeholder without tokens has no age and no row.
    """
    parts = token_lags(rollouts, segments)
    parts["weighted"] = parts["lag"] * parts["tokens"]
    table = (
        parts.groupby(["rollout_id", "status"], sort=True)
        .agg(
            oldest=("lag", "max"),
            newest=("lag", "min"),
            mean_over_segments=("lag", "mean"),
            weighted=("weighted", "sum"),
            tokens=("tokens", "sum"),
        )
        .reset_index()
    )
    table["mean"] = table.pop("weighted") / table["tokens"]
    return table


def lag_summary(
    values: NDArray[np.float64], weights: NDArray[np.float64] | None = None
) -> dict[str, float | str]:
    """n, mean, p50, p99 and max of lags in updates, and by which method the percentiles were taken.

    Args:
        values: lags, one a rollout or one a segment.
        weights: tokens behind each value, to weight by token; None counts every value once.
    """
    if len(values) == 0:
        nothing = float("nan")
        return {"n": 0.0, "mean": nothing, "p50": nothing, "p99": nothing, "max": nothing, "method": "none"}
    if weights is None:
        p50, p99 = np.quantile(values, [0.5, 0.99])
        method, n = QUANTILE_METHOD, float(len(values))
    else:
        p50, p99 = np.quantile(values, [0.5, 0.99], weights=weights, method="inverted_cdf")
        method, n = WEIGHTED_QUANTILE_METHOD, float(weights.sum())
    mean = float(np.average(values, weights=weights))
    return {
        "n": n,
        "mean": mean,
        "p50": float(p50),
        "p99": float(p99),
        "max": float(values.max()),
        "method": method,
    }


def lag_table(rollouts: pd.DataFrame, segments: pd.DataFrame) -> pd.DataFrame:
    """Lag by population and weighting: one row each of offered, dropped, trained x rollout, token.

    The rollout rows take each rollout's oldest token, the token rows take every token's own lag.
    """
    lags, tokens = rollout_lags(rollouts, segments), token_lags(rollouts, segments)
    rows: list[dict[str, object]] = []
    for population, statuses in POPULATIONS.items():
        oldest = of_status(lags, statuses)["oldest"].to_numpy(dtype=float)
        rows.append({"population": population, "weighting": "rollout (oldest token)", **lag_summary(oldest)})
        chosen = of_status(tokens, statuses)
        summary = lag_summary(chosen["lag"].to_numpy(dtype=float), chosen["tokens"].to_numpy(dtype=float))
        rows.append({"population": population, "weighting": "token", **summary})
    return pd.DataFrame(rows)


def of_status(table: pd.DataFrame, statuses: Collection[str]) -> pd.DataFrame:
    """The rows of rollouts that ended in one of these ways."""
    return table.loc[table["status"].isin(list(statuses))]
