"""How is one fact written as a trace event? Slices, counters and names, as the format wants them."""

from __future__ import annotations

from typing import Any, Final, TypeAlias

import pandas as pd

from analysis.measures.idle import UNACCOUNTED

Event: TypeAlias = dict[str, Any]

TRAINER: Final = 1
COUNTERS: Final = 2
FIRST_ENGINE: Final = 10
"""Process ids; engine i is FIRST_ENGINE + i."""


def slice_of(
    category: str,
    name: str,
    process: int,
    track: int,
    start_s: float,
    stop_s: float,
    *,
    end_s: float,
    **arguments: Any,
) -> Event:
    """Something that lasted.

    What is open, or goes on, ends with the window. Times to a nanosecond, so that slices which share an
    instant share a number.
    """
    begin = round(start_s * 1e6, 3)
    stop = round((end_s if pd.isna(stop_s) else min(stop_s, end_s)) * 1e6, 3)
    return {
        "name": name,
        "cat": category,
        "ph": "X",
        "ts": begin,
        "dur": round(max(stop - begin, 0.0), 3),
        "pid": process,
        "tid": track,
        "args": arguments,
    }


def spells(own: pd.DataFrame, process: int, track: int, *, end_s: float) -> list[Event]:
    """What one machine did: slices named by cause, `decode` or `idle: gate_closed`."""
    cause = own["cause"].fillna(UNACCOUNTED)
    names = cause.where(own["state"] == "busy", own["state"] + ": " + cause)
    return [
        slice_of(state, name, process, track, start_s, stop_s, end_s=end_s)
        for state, name, start_s, stop_s in zip(
            own["state"], names, own["start_s"], own["end_s"], strict=True
        )
    ]


def count(name: str, at_s: float, value: float) -> Event:
    return {
        "name": name,
        "ph": "C",
        "ts": round(at_s * 1e6, 3),
        "pid": COUNTERS,
        "tid": 0,
        "args": {"value": float(value)},
    }


def name_of(process: int, name: str, *, track: int | None = None) -> list[Event]:
    """Names a process, or one of its tracks; both are sorted as they are numbered."""
    kind, place = ("process", process) if track is None else ("thread", track)
    common = {"ph": "M", "ts": 0, "pid": process, "tid": track or 0}
    return [
        {"name": f"{kind}_name", **common, "args": {"name": name}},
        {"name": f"{kind}_sort_index", **common, "args": {"sort_index": place}},
    ]
