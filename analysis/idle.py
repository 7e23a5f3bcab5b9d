"""How idle were the machines? Shares of a window, by interval union, clipped to the window.

Overlapping intervals count once, an interval that is still open at the window's end counts up to it, and
the pieces of a pause that crosses an edge belong to the windows that they fall in. So for every resource
0 <= idle <= 1 and busy + idle = window, whatever was logged.
"""

from __future__ import annotations

from typing import Final

import numpy as np
import pandas as pd
from numpy.typing import NDArray

Spans = NDArray[np.float64]
"""Start and end in seconds, one row an interval, shape (n, 2); an end of NaN is still open."""

UNACCOUNTED: Final = "unaccounted"
ROUNDING: Final = 1e-12
"""Share of a window below which a remainder is rounding of float seconds, not a pause."""


def union_s(spans: Spans, window_s: tuple[float, float]) -> float:
    """Seconds of the window covered by at least one of the spans."""
    merged = merge(clip(spans, window_s))
    return float((merged[:, 1] - merged[:, 0]).sum())


def clip(spans: Spans, window_s: tuple[float, float]) -> Spans:
    """The parts of the spans inside the window; what is still open ends where the window ends."""
    start_s, end_s = window_s
    if not end_s > start_s:
        raise ValueError(f"window [{start_s}, {end_s}] s is empty")
    starts = spans[:, 0]
    ends = np.where(np.isnan(spans[:, 1]), np.maximum(end_s, starts), spans[:, 1])
    broken = ~(ends >= starts)
    if broken.any():
        raise ValueError(f"interval {spans[broken][0].tolist()} s ends before it starts")
    inside = np.column_stack([np.clip(starts, start_s, end_s), np.clip(ends, start_s, end_s)])
    return inside[inside[:, 1] > inside[:, 0]]


def merge(spans: Spans) -> Spans:
    """The same ground covered by disjoint spans, in order."""
    if len(spans) == 0:
        return spans.reshape(0, 2)
    ordered = spans[np.argsort(spans[:, 0], kind="stable")]
    reach = np.maximum.accumulate(ordered[:, 1])
    opens = np.concatenate([[True], ordered[1:, 0] > reach[:-1]])
    starts = ordered[opens, 0]
    ends = reach[np.concatenate([np.flatnonzero(opens)[1:] - 1, [len(ordered) - 1]])]
    return np.column_stack([starts, ends])


def shares(intervals: pd.DataFrame, window_s: tuple[float, float]) -> pd.DataFrame:
    """One row a resource: busy_s, idle_s, busy, idle (shares of the window).

    Busy wins where busy and idle intervals overlap. Time that no interval covers is idle with cause
    `unaccounted`: a machine about which the log is silent is not counted as working.
    """
    length_s = window_s[1] - window_s[0]
    rows: list[dict[str, object]] = []
    for resource, own in intervals.groupby("resource", sort=True):
        busy_s = union_s(_spans(own.loc[own["state"] == "busy"]), window_s)
        idle_s = length_s - busy_s
        rows.append(
            {
                "resource": resource,
                "busy_s": busy_s,
                "idle_s": idle_s,
                "busy": busy_s / length_s,
                "idle": idle_s / length_s,
            }
        )
    return pd.DataFrame(rows, columns=["resource", "busy_s", "idle_s", "busy", "idle"])


def idle_by_cause(intervals: pd.DataFrame, window_s: tuple[float, float]) -> pd.DataFrame:
    """Why was it idle? One row a resource and cause: idle_s and idle share; sums to `shares`' idle.

    Where idle intervals of two causes overlap, the cause that was logged first has the time.
    """
    length_s = window_s[1] - window_s[0]
    rows: list[dict[str, object]] = []
    for resource, own in intervals.groupby("resource", sort=True):
        taken = merge(clip(_spans(own.loc[own["state"] == "busy"]), window_s))
        covered_s = union_s(taken, window_s)
        seconds: dict[str, float] = {}
        for cause, spans in own.loc[own["state"] == "idle"].groupby("cause", sort=False, dropna=False):
            taken = merge(np.concatenate([taken, clip(_spans(spans), window_s)]))
            reach_s = float((taken[:, 1] - taken[:, 0]).sum())
            seconds[str(cause)] = reach_s - covered_s
            covered_s = reach_s
        seconds[UNACCOUNTED] = seconds.get(UNACCOUNTED, 0.0) + length_s - covered_s
        rows += [
            {"resource": resource, "cause": cause, "idle_s": spent_s, "idle": spent_s / length_s}
            for cause, spent_s in seconds.items()
            if spent_s > ROUNDING * length_s
        ]
    return pd.DataFrame(rows, columns=["resource", "cause", "idle_s", "idle"])


def _spans(intervals: pd.DataFrame) -> Spans:
    return intervals[["start_s", "end_s"]].to_numpy(dtype=float)
