"""What did the engines do? Their rollouts and slots as trace events, a process an engine.

A rollout's slot is not in the log, only its engine; so rollouts lie on tracks that they would fill if the
lowest free one were always taken. Slots are tracks of their own, with the causes of their idleness.
"""

from __future__ import annotations

import math
import re
from typing import Final

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from analysis.runs import Run
from analysis.trace.events import FIRST_ENGINE, Event, name_of, slice_of, spells

_SLOTS: Final = 1000
"""Tracks from here on are slots, those below are rollouts."""


def lanes(starts: NDArray[np.float64], ends: NDArray[np.float64]) -> NDArray[np.int64]:
    """The lowest free track for each interval, in order of start; as many tracks as ever overlap."""
    free_at: list[float] = []
    assigned = np.empty(len(starts), dtype=np.int64)
    for place in np.argsort(starts, kind="stable"):
        lane = next((i for i, end in enumerate(free_at) if end <= starts[place]), len(free_at))
        if lane == len(free_at):
            free_at.append(0.0)
        free_at[lane] = float(ends[place])
        assigned[place] = lane
    return assigned


def engine_events(run: Run, end_s: float, *, engines: int, tracks: int) -> tuple[list[Event], dict[str, int]]:
    """Events of the first engines up to `end_s`, and how many engines, rollouts and slots were left out."""
    rollouts = run.rollouts.loc[run.rollouts["started_s"] < end_s]
    # A log that names no engine has one.
    engine_of = rollouts["engine"].fillna(0).astype(np.int64)
    intervals = run.intervals.loc[
        run.intervals["resource"].str.startswith("engine") & (run.intervals["start_s"] < end_s)
    ]
    owner = intervals["resource"].map(_owner)
    known = sorted({*engine_of.unique().tolist(), *owner.unique().tolist()})
    events: list[Event] = []
    drawn_rollouts = drawn_slots = 0
    for engine in known[:engines]:
        own = _rollouts(run.segments, rollouts.loc[engine_of == engine], engine, end_s, tracks)
        slots = _slots(intervals.loc[owner == engine], engine, end_s, tracks)
        drawn_rollouts += sum(event["cat"] == "rollout" for event in own if event["ph"] == "X")
        drawn_slots += sum(event["name"] == "thread_name" for event in slots)
        events += [*name_of(FIRST_ENGINE + engine, f"engine {engine}"), *own, *slots]
    return events, {
        "engines_left_out": max(0, len(known) - engines),
        "rollouts_left_out": len(rollouts) - drawn_rollouts,
        "slots_left_out": int(intervals["resource"].nunique()) - drawn_slots,
    }


def _rollouts(
    segments: pd.DataFrame, own: pd.DataFrame, engine: int, end_s: float, tracks: int
) -> list[Event]:
    """An engine's rollouts on its first tracks, each with the versions that sampled it within."""
    own = own.sort_values("started_s", kind="stable")
    stops_s = own["finished_s"].astype(float).fillna(own["consumed_s"].astype(float)).fillna(math.inf)
    lane = lanes(own["started_s"].to_numpy(dtype=float), np.asarray(stops_s, dtype=np.float64))
    shown = own.assign(lane=lane, stop_s=stops_s)[lane < tracks]
    track = dict(zip(shown["rollout_id"], shown["lane"], strict=True))
    process = FIRST_ENGINE + engine
    events: list[Event] = []
    for place in sorted(set(track.values())):
        events += name_of(process, f"rollouts {place}", track=int(place))
    for rollout, place, status, start_s, stop_s in shown[
        ["rollout_id", "lane", "status", "started_s", "stop_s"]
    ].itertuples(index=False, name=None):
        words = f"rollout {rollout}"
        events.append(
            slice_of("rollout", words, process, int(place), start_s, stop_s, end_s=end_s, status=status)
        )
    stop_of = dict(zip(shown["rollout_id"], shown["stop_s"], strict=True))
    parts = segments.loc[segments["rollout_id"].isin(track) & (segments["start_s"] < end_s)]
    for rollout, version, tokens, start_s, stop_s in parts[
        ["rollout_id", "version", "tokens", "start_s", "end_s"]
    ].itertuples(index=False, name=None):
        # An unfinished rollout's last segment is open; none ends after its rollout.
        last_s = stop_of[rollout] if pd.isna(stop_s) else min(stop_s, stop_of[rollout])
        words = f"version {version}"
        place = int(track[rollout])
        events.append(
            slice_of("version", words, process, place, start_s, last_s, end_s=end_s, tokens=int(tokens))
        )
    return events


def _slots(own: pd.DataFrame, engine: int, end_s: float, tracks: int) -> list[Event]:
    """What an engine as a whole, and its first slots, did."""
    process = FIRST_ENGINE + engine
    events: list[Event] = []
    for place, resource in enumerate(sorted(own["resource"].unique(), key=_numbers)[:tracks]):
        track = _SLOTS + place
        events += name_of(process, resource.partition("/")[2] or "whole engine", track=track)
        events += spells(own.loc[own["resource"] == resource], process, track, end_s=end_s)
    return events


def _owner(resource: str) -> int:
    """`engine-2/slot-7` is of engine 2; a name without a number is of engine 0."""
    return (_numbers(resource) or [0])[0]


def _numbers(resource: str) -> list[int]:
    return [int(digits) for digits in re.findall(r"\d+", resource)]
