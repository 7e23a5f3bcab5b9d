"""How does the mean lag depend on the load? Runs beside the closed form of their own slots and groups."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Final

import numpy as np
import pandas as pd

from analysis.measures.load import Load, predicted
from analysis.tables.means import mean_over_seeds

ALIKE: Final = 0.1
"""Settings whose slots, groups and queue differ by less than this are one line (*choice*)."""
_SHAPE: Final = ("slots_per_batch", "group_ratio", "queue_batches", "updates_per_batch")
POINTS: Final = ("line", "rho", "lag", "low", "high", "n", *_SHAPE)


def lag_by_load(outcomes: pd.DataFrame, *, rng: np.random.Generator) -> pd.DataFrame:
    """One row an arm: its rho, its mean lag after the filling (updates) with interval, and its line.

    A line is of arms that are alike but for rho: in slots over batch, group ratio and capacity of the queue.

    Args:
        outcomes: one row a run, with `measures.load.load_outcomes`.

    Returns:
        Columns line, rho, lag, low, high, n and those of a line's shape (of its first arm); arms without a
        load are left out.
    """
    known = outcomes.loc[np.isfinite(outcomes[["rho", "settled_lag"]].to_numpy(dtype=float)).all(axis=1)]
    lines: list[tuple[float, ...]] = []
    rows: list[dict[str, object]] = []
    for _, own in known.groupby("arm", sort=False):
        shape = tuple(float(own[name].mean()) for name in _SHAPE)
        first = next((line for line in lines if _alike(line, shape)), shape)
        if first is shape:
            lines.append(shape)
        found = mean_over_seeds(own["settled_lag"], rng=rng)
        rows.append(
            {
                "line": _name(first),
                "rho": float(own["rho"].mean()),
                "lag": found["mean"],
                "low": found["low"],
                "high": found["high"],
                "n": int(found["n"]),
                **dict(zip(_SHAPE, first, strict=True)),
            }
        )
    return pd.DataFrame(rows, columns=list(POINTS)).sort_values(["line", "rho"], ignore_index=True)


def expected(points: pd.DataFrame, *, moments: int = 80) -> pd.DataFrame:
    """The closed form of each line from rho near 0 to beyond its largest point: columns line, rho, lag."""
    parts = []
    for line, own in points.groupby("line", sort=False):
        slots, ratio, queue, per_batch = own[list(_SHAPE)].iloc[0].tolist()
        reach = max(1.2, 1.1 * float(own["rho"].max()))
        at = np.union1d(np.linspace(0.05, reach, moments), [1.0, np.nextafter(1.0, 2.0)])
        lags = [
            predicted(
                Load(
                    slots=slots,
                    batch_rollouts=1.0,
                    updates_per_batch=per_batch,
                    rho=rho,
                    group_ratio=ratio,
                    queue_batches=None if math.isnan(queue) else queue,
                )
            )["lag"]
            for rho in at.tolist()
        ]
        parts.append(pd.DataFrame({"line": line, "rho": at, "lag": lags}))
    return pd.concat(parts, ignore_index=True) if parts else pd.DataFrame(columns=["line", "rho", "lag"])


def _alike(one: Sequence[float], other: Sequence[float]) -> bool:
    return bool(np.isclose(one, other, rtol=ALIKE, atol=0, equal_nan=True).all())


def _name(shape: Sequence[float]) -> str:
    slots, ratio, queue, per_batch = shape
    words = [
        f"C/B {slots:.2g}",
        f"M {ratio:.2g}" if ratio > 1 else "no groups",
        f"queue {queue:.2g} B" if math.isfinite(queue) else "",
        f"{per_batch:.0f} updates a batch" if per_batch > 1 else "",
    ]
    return ", ".join(word for word in words if word)
