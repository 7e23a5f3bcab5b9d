"""How does the score move, over updates and over hours, and over how many seeds is each point a mean?

Runs of unequal length never average silently: by default a curve ends where its shortest run ends, and
every point carries the number of runs behind it.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Literal

import numpy as np
import pandas as pd
from numpy.typing import NDArray

Floats = NDArray[np.float64]


def score(updates: pd.DataFrame, metric: str) -> pd.DataFrame:
    """The measured points of one run: version, hours (when the update ended) and value."""
    if metric not in updates.columns:
        raise KeyError(f"updates carry no {metric!r}; they have {sorted(updates.columns)}")
    measured = updates.loc[updates[metric].notna()]
    return pd.DataFrame(
        {
            "version": measured["version"].to_numpy(dtype=float),
            "hours": measured["train_end_s"].to_numpy(dtype=float) / 3600,
            "value": measured[metric].to_numpy(dtype=float),
        }
    )


def mean_curve(
    curves: Sequence[Floats], *, ends: Literal["cut", "show"] = "cut"
) -> tuple[Floats, NDArray[np.int64]]:
    """Mean over runs at each step, and n, the number of runs behind it.

    Args:
        curves: one array a run, step by step from the first.
        ends: `cut` at the common length, or `show` every step with its falling n.
    """
    table = stack(curves)
    if ends == "cut":
        table = table[:, : min(len(curve) for curve in curves)]
    n = (~np.isnan(table)).sum(axis=0)
    with np.errstate(invalid="ignore"):
        return np.nansum(table, axis=0) / n, n


def stack(curves: Sequence[Floats]) -> Floats:
    """Runs as rows, steps as columns, NaN after a run's end."""
    if not curves:
        raise ValueError("no curves to average")
    table = np.full((len(curves), max(len(curve) for curve in curves)), np.nan)
    for row, curve in zip(table, curves, strict=True):
        row[: len(curve)] = curve
    return table


def binned(points: pd.DataFrame, x: str, edges: Floats) -> Floats:
    """Mean of the values in each (edge, next edge]; NaN where nothing was measured."""
    places = np.searchsorted(edges, points[x].to_numpy(dtype=float), side="left") - 1
    values = points["value"].to_numpy(dtype=float)
    inside = (places >= 0) & (places < len(edges) - 1)
    sums = np.bincount(places[inside], weights=values[inside], minlength=len(edges) - 1)
    counts = np.bincount(places[inside], minlength=len(edges) - 1)
    with np.errstate(invalid="ignore"):
        return sums / counts


def at_hours(points: pd.DataFrame, hours: Floats) -> Floats:
    """The latest value measured by each hour; NaN before the first measurement and after the last one."""
    measured = points["hours"].to_numpy(dtype=float)
    place = np.searchsorted(measured, hours, side="right") - 1
    values = points["value"].to_numpy(dtype=float)
    known = (place >= 0) & (hours <= measured[-1]) if len(measured) else np.zeros(len(hours), dtype=bool)
    return np.where(known, values[np.clip(place, 0, None)] if len(values) else np.nan, np.nan)


def hours_to_target(points: pd.DataFrame, target: float) -> float | None:
    """Hours until the score was first measured at or above the target; None if it never was."""
    reached = points["value"].to_numpy(dtype=float) >= target
    return float(points["hours"].to_numpy()[reached.argmax()]) if reached.any() else None
