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

Owners = NDArray[np.int64]
"""Whose span each is, as a place among the resources, shape (n,)."""

UNACCOUNTED: Final = "unaccounted"
ROUNDING: Final = 1e-12
"""Share of a window below which a remainder is rounding of float seconds, not a pause."""


def union_s(spans: Spans, window_s: tuple[float, float]) -> float:
    """Seconds of the window covered by at least one of the spans."""
    merged = merge(clip(spans, window_s))
    return float((merged[:, 1] - merged[:, 0]).sum())


def clip(spans: Spans, window_s: tuple[float, float]) -> Spans:
    """The parts of the spans inside the window; what is still open ends where the window ends."""
    inside, kept = _clipped(spans, window_s)
    return inside[kept]


def _clipped(spans: Spans, window_s: tuple[float, float]) -> tuple[Spans, NDArray[np.bool_]]:
    """Every span held to the window, and which of them have something of it."""
    start_s, end_s = window_s
    if not end_s > start_s:
        raise ValueError(f"window [{start_s}, {end_s}] s is empty")
    starts = spans[:, 0]
    ends = np.where(np.isnan(spans[:, 1]), np.maximum(end_s, starts), spans[:, 1])
    broken = ~(ends >= starts)
    if broken.any():
        raise ValueError(f"interval {spans[broken][0].tolist()} s ends before it starts")
    inside = np.column_stack([np.clip(starts, start_s, end_s), np.clip(ends, start_s, end_s)])
    return inside, inside[:, 1] > inside[:, 0]


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
    owners, names = pd.factorize(intervals["resource"], sort=True)
    busy = (intervals["state"] == "busy").to_numpy()
    inside = _clip_each(owners[busy], _spans(intervals)[busy], window_s)
    busy_s = np.minimum(_covered_s(*_merge_each(*inside), len(names)), length_s)
    idle_s = length_s - busy_s
    return pd.DataFrame(
        {
            "resource": names.astype(str),
            "busy_s": busy_s,
            "idle_s": idle_s,
            "busy": busy_s / length_s,
            "idle": idle_s / length_s,
        }
    )


def idle_by_cause(intervals: pd.DataFrame, window_s: tuple[float, float]) -> pd.DataFrame:
    """Why was it idle? One row a resource and cause: idle_s and idle share; sums to `shares`' idle.

    Where idle intervals of two causes overlap, the cause that was logged first has the time.
    """
    length_s = window_s[1] - window_s[0]
    owners, names = pd.factorize(intervals["resource"], sort=True)
    causes, words = pd.factorize(intervals["cause"].fillna(UNACCOUNTED))
    turns = _turns(owners, causes, (intervals["state"] == "idle").to_numpy())
    turns[(intervals["state"] == "busy").to_numpy()] = 0
    spans = _spans(intervals)
    # All resources at once, a turn after the other: what a turn adds to the ground covered is its cause's.
    taken = np.zeros(0, dtype=np.int64), np.zeros((0, 2))
    covered_s, parts = np.zeros(len(names)), []
    for turn in range(int(turns.max(initial=0)) + 1):
        own = turns == turn
        more = _clip_each(owners[own], spans[own], window_s)
        taken = _merge_each(*(np.concatenate(pair) for pair in zip(taken, more, strict=True)))
        reach_s = _covered_s(*taken, len(names))
        if turn > 0:
            of, first = np.unique(owners[own], return_index=True)
            named = words[causes[own][first]]
            parts.append(pd.DataFrame({"owner": of, "cause": named, "idle_s": (reach_s - covered_s)[of]}))
        covered_s = reach_s
    silent = {"owner": np.arange(len(names)), "cause": UNACCOUNTED, "idle_s": length_s - covered_s}
    # A log may say so too; its own words come first in a resource's order, and are added to the silence.
    said = pd.concat([*parts, pd.DataFrame(silent)])
    table = said.groupby(["owner", "cause"], sort=False)["idle_s"].sum().reset_index()
    table = table.sort_values("owner", kind="stable")
    table = table.loc[table["idle_s"] > ROUNDING * length_s].reset_index(drop=True)
    return pd.DataFrame(
        {
            "resource": names.astype(str)[table["owner"]],
            "cause": table["cause"],
            "idle_s": table["idle_s"],
            "idle": table["idle_s"] / length_s,
        }
    )


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


def _spans(intervals: pd.DataFrame) -> Spans:
    return intervals[["start_s", "end_s"]].to_numpy(dtype=float)


def _turns(owners: Owners, causes: Owners, idle: NDArray[np.bool_]) -> Owners:
    """Of each idle row the place of its cause among those of its owner, from 1, as first logged; -1 else."""
    turns = np.full(len(owners), -1)
    rows = pd.DataFrame({"owner": owners[idle], "cause": causes[idle]})
    pairs = rows.drop_duplicates()
    place = pairs.assign(turn=pairs.groupby("owner", sort=False).cumcount() + 1)
    turns[idle] = rows.merge(place, how="left")["turn"].to_numpy()
    return turns


def _clip_each(owners: Owners, spans: Spans, window_s: tuple[float, float]) -> tuple[Owners, Spans]:
    """As `clip`, for the spans of many."""
    inside, kept = _clipped(spans, window_s)
    return owners[kept], inside[kept]


def _merge_each(owners: Owners, spans: Spans) -> tuple[Owners, Spans]:
    """As `merge`, for each owner's spans on their own; owners in order."""
    if len(spans) == 0:
        return owners, spans
    order = np.lexsort((spans[:, 0], owners))
    owners, starts, ends = owners[order], spans[order, 0], spans[order, 1]
    reach = pd.Series(ends).groupby(owners, sort=False).cummax().to_numpy()
    opens = np.concatenate([[True], (owners[1:] != owners[:-1]) | (starts[1:] > reach[:-1])])
    first = np.flatnonzero(opens)
    return owners[first], np.column_stack([starts[first], reach[np.append(first[1:], len(starts)) - 1]])


def _covered_s(owners: Owners, merged: Spans, n: int) -> NDArray[np.float64]:
    """Seconds of each owner's disjoint spans, shape (n,)."""
    return np.bincount(owners, weights=merged[:, 1] - merged[:, 0], minlength=n).astype(float)
