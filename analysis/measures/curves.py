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

from analysis.statistics.intervals import band

Floats = NDArray[np.float64]


def score(updates: pd.DataFrame, metric: str) -> pd.DataFrame:
    """The finite points of one run: version, hours (when the update ended), compute_hours if known, value."""
    if metric not in updates.columns:
        raise KeyError(f"updates carry no {metric!r}; they have {sorted(updates.columns)}")
    measured = updates.loc[np.isfinite(updates[metric].to_numpy(dtype=float))]
    return pd.DataFrame(
        {
            "version": measured["version"].to_numpy(dtype=float),
            "hours": measured["train_end_s"].to_numpy(dtype=float) / 3600,
            "value": measured[metric].to_numpy(dtype=float),
            **(
                {"compute_hours": measured["compute_hours"].to_numpy(dtype=float)}
                if "compute_hours" in measured.columns
                else {}
            ),
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


def at_hours(
    points: pd.DataFrame, hours: Floats, *, clock: Literal["hours", "compute_hours"] = "hours"
) -> Floats:
    """The latest value measured by each hour; NaN before the first measurement and after the last one."""
    measured = points[clock].to_numpy(dtype=float)
    place = np.searchsorted(measured, hours, side="right") - 1
    values = points["value"].to_numpy(dtype=float)
    known = (place >= 0) & (hours <= measured[-1]) if len(measured) else np.zeros(len(hours), dtype=bool)
    return np.where(known, values[np.clip(place, 0, None)] if len(values) else np.nan, np.nan)


def hours_to_target(points: pd.DataFrame, target: float) -> float | None:
    """Hours until the score was first measured at or above the target; None if it never was."""
    reached = points["value"].to_numpy(dtype=float) >= target
    return float(points["hours"].to_numpy()[reached.argmax()]) if reached.any() else None


def curve_table(
    updates: pd.DataFrame,
    metric: str,
    *,
    x: Literal["version", "hours", "compute_hours"],
    rng: np.random.Generator,
    points: int = 120,
) -> pd.DataFrame:
    """Mean curve of each arm: columns arm, x, mean, low, high (bootstrap band over seeds), n, seeds.

    Each arm begins where its last run has begun and ends where its shortest ends. Over versions, long runs
    are averaged in `points` equal bins (so nothing is thinned out); over hours, a run has its latest value.

    Args:
        updates: the runs' `updates`, one under the other, with columns arm and seed.
    """
    parts: list[pd.DataFrame] = []
    for arm, own in updates.groupby("arm", sort=False):
        runs = [score(run, metric) for _, run in own.groupby("seed")]
        runs = [run for run in runs if len(run)]
        if not runs:
            continue
        end = min(run[x].iloc[-1] for run in runs)
        if x == "version":
            edges = np.linspace(0, end, min(points, int(end)) + 1)
            values, at = np.stack([binned(run, x, edges) for run in runs]), edges[1:]
        else:
            at = np.linspace(max(run[x].iloc[0] for run in runs), end, points)
            values = np.stack([at_hours(run, at, clock=x) for run in runs])
        means, n = mean_curve(list(values))
        low, high = band(values, rng=rng)
        parts.append(
            pd.DataFrame(
                {"arm": arm, "x": at, "mean": means, "low": low, "high": high, "n": n, "seeds": len(runs)}
            )
        )
    if not parts:
        return pd.DataFrame(columns=["arm", "x", "mean", "low", "high", "n", "seeds"])
    return pd.concat(parts, ignore_index=True)
