"""How idle were the machines? Shares of a window, by interval union, clipped to the window.

Overlapping intervals count once, an interval that is still open at the window's end counts up to it, and
the pieces of a pause that crosses an edge belong to the windows that they fall in. So for every resource
0 <= idle <= 1 and busy + idle = window, whatever was logged.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, Final

import numpy as np
import pandas as pd
from numpy.typing import NDArray

Spans = NDArray[np.float64]
"""Start and end in seconds, one row an interval, shape (n, 2); an end of NaN is still open."""

Texts = NDArray[Any]

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
    for resource, state, _, spans in _by_resource(intervals):
        busy_s = union_s(spans[state == "busy"], window_s)
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
    for resource, state, cause, spans in _by_resource(intervals):
        taken = merge(clip(spans[state == "busy"], window_s))
        covered_s = union_s(taken, window_s)
        seconds: dict[str, float] = {}
        for name in dict.fromkeys(cause[state == "idle"]):
            chosen = spans[(state == "idle") & (cause == name)]
            taken = merge(np.concatenate([taken, clip(chosen, window_s)]))
            reach_s = float((taken[:, 1] - taken[:, 0]).sum())
            seconds[name] = reach_s - covered_s
            covered_s = reach_s
        seconds[UNACCOUNTED] = seconds.get(UNACCOUNTED, 0.0) + length_s - covered_s
        rows += [
            {"resource": resource, "cause": cause, "idle_s": spent_s, "idle": spent_s / length_s}
            for cause, spent_s in seconds.items()
            if spent_s > ROUNDING * length_s
        ]
    return pd.DataFrame(rows, columns=["resource", "cause", "idle_s", "idle"])


def machine_kind(resources: pd.Series[str]) -> pd.Series[str]:
    """What kind of machine each resource is, by its name: trainer, engines, whole engines, or itself.

    Engines are measured by the finest part that the log names: `engine-0/slot-3` is one of the engines, and
    `engine-0` too where no slot of any engine is named. Where slots are, an engine's own intervals are a
    kind apart (whole engines): averaged with its slots its time would count twice.
    """
    names = pd.Index(resources.unique())
    slots = any(name.startswith("engine") and "/" in name for name in names)

    def kind(name: str) -> str:
        if not name.startswith("engine"):
            return name
        return "engines" if "/" in name or not slots else "whole engines"

    return pd.Series([kind(name) for name in names], index=names)


def _by_resource(intervals: pd.DataFrame) -> Iterator[tuple[str, Texts, Texts, Spans]]:
    """Each resource with the states, causes and spans of its intervals, in the order they were logged."""
    codes, names = pd.factorize(intervals["resource"], sort=True)
    state = intervals["state"].to_numpy(dtype=object)
    cause = intervals["cause"].fillna(UNACCOUNTED).to_numpy(dtype=object)
    spans = intervals[["start_s", "end_s"]].to_numpy(dtype=float)
    order = np.argsort(codes, kind="stable")
    bounds = np.searchsorted(codes[order], np.arange(len(names) + 1))
    for name, first, last in zip(names, bounds[:-1], bounds[1:], strict=True):
        rows = order[first:last]
        yield str(name), state[rows], cause[rows], spans[rows]
