"""Did the rules change how long the answers are that are trained on? Generated against trained lengths.

A rule that drops or aborts what is old throws away what took long, and trains on shorter answers than the
policy gives. Lengths are in action tokens.
"""

from __future__ import annotations

from typing import Final

import numpy as np
import pandas as pd
from numpy.typing import NDArray

GENERATED: Final = "generated"


def generated(rollouts: pd.DataFrame) -> pd.Series[bool]:
    """Which rollouts finished. What is in flight, or was aborted, has a length that nobody knows yet."""
    return rollouts["finished_s"].notna() & (rollouts["status"] != "in_flight")


def ks_distance(one: NDArray[np.float64], other: NDArray[np.float64]) -> float:
    r"""Kolmogorov-Smirnov distance of two samples, :math:`\max_x |F_1(x) - F_2(x)|`; NaN if one is empty."""
    if len(one) == 0 or len(other) == 0:
        return float("nan")
    one, other = np.sort(one), np.sort(other)
    at = np.concatenate([one, other])
    shares = [np.searchsorted(sample, at, side="right") / len(sample) for sample in (one, other)]
    return float(np.abs(shares[0] - shares[1]).max())


def length_table(rollouts: pd.DataFrame) -> pd.DataFrame:
    """Lengths by what became of the rollouts, against all that were generated.

    Returns:
        Columns fate (generated, trained, dropped: and each reason, left), rollouts, mean_tokens, ratio (of
        the mean to that of all generated), ks (distance from them), unfinished (rollouts that were dropped
        while they decoded; their lengths are what they had made, so they are not among the generated).
    """
    done = generated(rollouts)
    tokens = rollouts["action_tokens"].to_numpy(dtype=float)
    status = rollouts["status"]
    everything = tokens[done.to_numpy()]
    chosen = {GENERATED: done, "trained": status == "trained"}
    dropped = status == "dropped"
    reasons = rollouts["reason"].fillna("no reason given")
    chosen |= {
        f"dropped: {reason}": dropped & (reasons == reason) for reason in sorted(reasons[dropped].unique())
    }
    chosen["left"] = status.isin(["training", "queued", "waiting"])
    rows = []
    for fate, members in chosen.items():
        own = tokens[members.to_numpy()]
        if len(own) == 0 and fate != GENERATED:
            continue
        mean = _mean(own)
        rows.append(
            {
                "fate": fate,
                "rollouts": len(own),
                "mean_tokens": mean,
                "ratio": mean / _mean(everything),
                "ks": ks_distance(own, everything),
                "unfinished": int((members & ~done).sum()),
            }
        )
    return pd.DataFrame(rows)


def length_bias(rollouts: pd.DataFrame) -> dict[str, float]:
    """`generated_length_tokens`, `trained_length_tokens` (means), their `length_ratio`, and `length_ks`."""
    tokens = rollouts["action_tokens"].to_numpy(dtype=float)
    made = tokens[generated(rollouts).to_numpy()]
    trained = tokens[(rollouts["status"] == "trained").to_numpy()]
    return {
        "generated_length_tokens": _mean(made),
        "trained_length_tokens": _mean(trained),
        "length_ratio": _mean(trained) / _mean(made),
        "length_ks": ks_distance(trained, made),
    }


def _mean(values: NDArray[np.float64]) -> float:
    return float(values.mean()) if len(values) else float("nan")
