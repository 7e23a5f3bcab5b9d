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
"""Which statuses make up a population. Reporting only one of them hides what a rule threw away; what had
finished and was still waiting when the run ended has no lag yet, only an age (`lag_table.LEFT`)."""

QUANTILES: Final = {"p50": 0.5, "p90": 0.9, "p99": 0.99}
QUANTILE_METHOD: Final = "linear interpolation"
WEIGHTED_QUANTILE_METHOD: Final = "inverted weighted CDF"
_ROUNDING: Final = 1e-12
"""A sum of weights this close below a level, as a share of all, has reached it."""


def met_the_trainer(rollouts: pd.DataFrame) -> pd.Series[bool]:
    """Which have a lag. A validation's `consumed_version` is the one at which it was asked for: newer weights
    may answer, and nothing is trained."""
    return rollouts["consumed_version"].notna() & (rollouts["status"] != "validation")


def token_lags(rollouts: pd.DataFrame, segments: pd.DataFrame) -> pd.DataFrame:
    """One row a segment that has tokens: rollout_id, status, lag (updates), tokens.

    And `loss_tokens`, if the segments have it: how many of the tokens the loss counted.
    """
    met = met_the_trainer(rollouts)
    consumed = rollouts.loc[met, ["rollout_id", "status", "consumed_version"]]
    known = pd.Index(consumed["rollout_id"])
    if not known.is_unique:
        raise ValueError("a rollout is listed twice, so it would be counted twice")
    counts = ["tokens", *(name for name in ("loss_tokens",) if name in segments.columns)]
    # Places, not a merge: a long run has a million segments.
    place = known.get_indexer(pd.Index(segments["rollout_id"]))
    kept = (place >= 0) & (segments["tokens"] > 0).to_numpy()
    own = segments.loc[kept, ["rollout_id", "version", *counts]].reset_index(drop=True)
    version = consumed["consumed_version"].to_numpy()[place[kept]]
    joined = own.assign(
        status=consumed["status"].array.take(place[kept]),
        consumed_version=version,
        lag=version - own["version"].to_numpy(),
    )
    if (joined["lag"] < 0).any():
        worst = joined.iloc[int(joined["lag"].to_numpy().argmin())]
        raise ValueError(
            f"rollout {worst['rollout_id']} was consumed at version {worst['consumed_version']:.0f} "
            f"with tokens of version {worst['version']:.0f}: a token cannot be newer than the trainer"
        )
    table: pd.DataFrame = joined[["rollout_id", "status", "lag", *counts]]
    return table


def rollout_lags(rollouts: pd.DataFrame, segments: pd.DataFrame) -> pd.DataFrame:
    """One row a rollout that reached the trainer, in updates.

    Columns: rollout_id, status, oldest, newest, mean (weighted by tokens), mean_over_segments (each
    version counts once), tokens. A placeholder without tokens has no age and no row.
    """
    parts = token_lags(rollouts, segments)
    order = np.argsort(parts["rollout_id"].to_numpy(), kind="stable")
    ids = parts["rollout_id"].to_numpy()[order]
    first = np.flatnonzero(np.concatenate([[True] * min(1, len(ids)), ids[1:] != ids[:-1]]))
    lag, tokens = (parts[name].to_numpy()[order] for name in ("lag", "tokens"))
    total = np.add.reduceat(tokens, first)
    return pd.DataFrame(
        {
            "rollout_id": ids[first],
            "status": parts["status"].array.take(order[first]),
            "oldest": np.maximum.reduceat(lag, first),
            "newest": np.minimum.reduceat(lag, first),
            "mean_over_segments": np.add.reduceat(lag, first) / np.diff(first, append=len(ids)),
            "tokens": total,
            "mean": np.add.reduceat(lag * tokens, first) / total,
        }
    )


def oldest_lags(parts: pd.DataFrame) -> NDArray[np.int64]:
    """Lag of each rollout's oldest token, from its segments in `token_lags`: `rollout_lags`' oldest alone."""
    codes, ids = pd.factorize(parts["rollout_id"])
    oldest = np.zeros(len(ids), dtype=np.int64)  # no lag is negative
    np.maximum.at(oldest, codes, parts["lag"].to_numpy(dtype=np.int64))
    return oldest


def lag_summary(
    values: NDArray[np.float64], weights: NDArray[np.float64] | None = None
) -> dict[str, float | str]:
    """n, min, mean, p50, p90, p99 and max of lags in updates, and how the percentiles were taken.

    Args:
        values: lags, one a rollout or one a segment.
        weights: what stands behind each value, such as its tokens; None counts every value once. A value
            of weight 0 is as if it were not there.

    Returns:
        n is the number of values, or the sum of the weights. Without any, n is 0 and the rest is NaN: no
        lag is not a lag of 0.
    """
    if weights is not None:
        values, weights = values[weights > 0], weights[weights > 0]
    if len(values) == 0:
        nothing = float("nan")
        names = ("min", "mean", *QUANTILES, "max")
        return {"n": 0.0, **dict.fromkeys(names, nothing), "method": "none"}
    levels = np.array(list(QUANTILES.values()))
    if weights is None:
        n, method, found = float(len(values)), QUANTILE_METHOD, np.quantile(values, levels)
    else:
        n, method = float(weights.sum()), WEIGHTED_QUANTILE_METHOD
        found = weighted_quantiles(values, weights, levels)
    return {
        "n": n,
        "min": float(values.min()),
        "mean": float(np.average(values, weights=weights)),
        **{name: float(value) for name, value in zip(QUANTILES, found, strict=True)},
        "max": float(values.max()),
        "method": method,
    }


def weighted_quantiles(
    values: NDArray[np.float64], weights: NDArray[np.float64], levels: NDArray[np.float64]
) -> NDArray[np.float64]:
    r"""The least value at which the weight up to it reaches a share of all.

    :math:`Q(q) = \min\{x : \sum_{i: x_i \le x} w_i \ge q \sum_i w_i\}`

    Args:
        values: shape (n,), n > 0.
        weights: positive, shape (n,).
        levels: q in [0, 1].
    """
    distinct, place = np.unique(values, return_inverse=True)
    reached = np.cumsum(np.bincount(place, weights=weights))
    found: NDArray[np.float64] = distinct[np.searchsorted(reached / reached[-1], levels - _ROUNDING)]
    return found


def of_status(table: pd.DataFrame, statuses: Collection[str]) -> pd.DataFrame:
    """The rows of rollouts that ended in one of these ways."""
    return table.loc[table["status"].isin(list(statuses))]
