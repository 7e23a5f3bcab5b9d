"""What did the machines do, moment by moment? A run as Chrome trace events, for ui.perfetto.dev.

Times are microseconds of the run's clock. Slices: the trainer, and a few slots of each engine with the
rollouts they decode and the versions within. Counters: rollouts in flight, queue depth, version, lag of
each batch. Format: the "Trace Event Format" document of the Chromium project; its phases used here are X
(complete slice), C (counter) and M (name of a track).
"""

from __future__ import annotations

import json
import math
from typing import Any, Final

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from analysis.lag import of_status, rollout_lags
from analysis.runs import Run

Event = dict[str, Any]
TRAINER, ENGINES, COUNTERS = 1, 2, 3
"""Process ids: the groups of tracks."""
_GROUPS: Final = {TRAINER: "trainer", ENGINES: "engines (sampled slots)", COUNTERS: "pipeline"}
MAX_EVENTS: Final = 100_000
"""Bounds the file at roughly 15 MB, which a browser opens at once."""


def chrome_trace(run: Run, *, updates: int = 50, slots: int = 16, max_events: int = MAX_EVENTS) -> Event:
    """The first updates of a run as one JSON object; `json.dumps` of it is the file.

    Args:
        updates: how many optimizer updates the window spans, from the start.
        slots: tracks of rollouts shown; the others still count in the counters.
        max_events: the window is cut where it would hold more.
    """
    ends_s = run.updates["train_end_s"].to_numpy(dtype=float)
    if len(ends_s) == 0:
        raise ValueError(f"run {run.arm!r} seed {run.seed} has no update to show")
    end_s = float(ends_s[min(updates, len(ends_s)) - 1])
    events = [*_trainer(run, end_s), *_rollouts(run, end_s, slots), *_counters(run, end_s)]
    events.sort(key=lambda event: (event["ts"], -event.get("dur", 0.0)))
    left_out = max(0, len(events) - max_events)
    names = _names({(event["pid"], event["tid"]): event["cat"] for event in events if event["ph"] == "X"})
    return {
        "traceEvents": names + events[:max_events],
        "displayTimeUnit": "ms",
        "otherData": {
            "arm": run.arm,
            "seed": run.seed,
            "clock": run.clock,
            "window_s": end_s,
            "updates": min(updates, len(ends_s)),
            "events_left_out": left_out,
        },
    }


def trace_json(run: Run, **choices: int) -> str:
    """The trace as text, compact, and refused if a number in it is not finite."""
    return json.dumps(chrome_trace(run, **choices), separators=(",", ":"), allow_nan=False)


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


def _trainer(run: Run, end_s: float) -> list[Event]:
    own = run.intervals.loc[(run.intervals["resource"] == "trainer") & (run.intervals["start_s"] < end_s)]
    return [
        _slice(f"{cause}" if state == "busy" else f"idle: {cause}", TRAINER, 0, "trainer", start_s, stop_s)
        for state, cause, start_s, stop_s in _rows(own, "state", "cause", "start_s", "end_s", end_s=end_s)
    ]


def _rollouts(run: Run, end_s: float, slots: int) -> list[Event]:
    """Rollouts as slices on the slots that they would fill if the lowest free one were taken first."""
    started = run.rollouts.loc[run.rollouts["started_s"] < end_s].sort_values("started_s", kind="stable")
    starts = started["started_s"].to_numpy(dtype=float)
    ends = started["finished_s"].fillna(math.inf).to_numpy(dtype=float)
    lane = lanes(starts, ends)
    shown = started.loc[lane < slots].assign(lane=lane[lane < slots])
    track = dict(zip(shown["rollout_id"], shown["lane"], strict=True))
    events = [
        _slice(f"rollout {rollout}", ENGINES, int(place), f"slot {place}", start_s, stop_s, status=status)
        for rollout, place, status, start_s, stop_s in _rows(
            shown, "rollout_id", "lane", "status", "started_s", "finished_s", end_s=end_s
        )
    ]
    parts = run.segments.loc[run.segments["rollout_id"].isin(track) & (run.segments["start_s"] < end_s)]
    return events + [
        _slice(
            f"version {version}",
            ENGINES,
            int(track[rollout]),
            f"slot {track[rollout]}",
            start_s,
            stop_s,
            tokens=int(tokens),
        )
        for rollout, version, tokens, start_s, stop_s in _rows(
            parts, "rollout_id", "version", "tokens", "start_s", "end_s", end_s=end_s
        )
    ]


def _counters(run: Run, end_s: float) -> list[Event]:
    rollouts, updates = run.rollouts, run.updates
    published = updates.loc[updates["published_s"].notna()]
    lags = of_status(rollout_lags(rollouts, run.segments), ("trained",)).merge(
        rollouts[["rollout_id", "consumed_version"]], on="rollout_id"
    )
    # An update to version v starts at version v - 1: its batch was consumed there.
    batch_lag = updates["version"].sub(1).map(lags.groupby("consumed_version")["oldest"].mean())
    return [
        *_levels("in flight (rollouts)", rollouts["started_s"], rollouts["finished_s"], end_s),
        *_levels("queue (rollouts)", rollouts["enqueued_s"], rollouts["consumed_s"], end_s),
        *_series("version (trainer)", updates["train_end_s"], updates["version"], end_s),
        *_series("version (engines)", published["published_s"], published["version"], end_s),
        *_series("lag, oldest token, batch mean (updates)", updates["train_start_s"], batch_lag, end_s),
    ]


def _levels(name: str, enter: pd.Series[float], leave: pd.Series[float], end_s: float) -> list[Event]:
    """How many are inside, after every change; several changes at one instant are one event."""
    times = np.concatenate([enter.to_numpy(dtype=float), leave.to_numpy(dtype=float)])
    change = np.repeat([1, -1], [len(enter), len(leave)])
    known = np.isfinite(times) & (times < end_s)
    instants, place = np.unique(times[known], return_inverse=True)
    levels = np.cumsum(np.bincount(place, weights=change[known], minlength=len(instants)))
    return [_count(name, at_s, level) for at_s, level in zip(instants, levels, strict=True)]


def _series(name: str, times: pd.Series[float], values: pd.Series[Any], end_s: float) -> list[Event]:
    known = (times <= end_s) & values.notna()
    return [_count(name, at_s, value) for at_s, value in zip(times[known], values[known], strict=True)]


def _rows(table: pd.DataFrame, *columns: str, end_s: float) -> list[tuple[Any, ...]]:
    """Rows whose last column is an end: what is open, or goes on, ends with the window."""
    clipped = table[list(columns)].copy()
    clipped[columns[-1]] = clipped[columns[-1]].astype(float).fillna(end_s).clip(upper=end_s)
    return list(clipped.itertuples(index=False, name=None))


def _slice(
    name: str, pid: int, tid: int, track: str, start_s: float, end_s: float, **arguments: Any
) -> Event:
    ts, stop = round(start_s * 1e6, 3), round(end_s * 1e6, 3)
    return {
        "name": name,
        "cat": track,
        "ph": "X",
        "ts": ts,
        "dur": round(max(stop - ts, 0.0), 3),
        "pid": pid,
        "tid": tid,
        "args": arguments,
    }


def _count(name: str, at_s: float, value: float) -> Event:
    return {
        "name": name,
        "ph": "C",
        "ts": round(at_s * 1e6, 3),
        "pid": COUNTERS,
        "tid": 0,
        "args": {"value": float(value)},
    }


def _names(tracks: dict[tuple[int, int], str]) -> list[Event]:
    """Metadata that names the groups and their tracks."""
    groups = [_meta("process_name", pid, 0, name) for pid, name in _GROUPS.items()]
    return groups + [_meta("thread_name", pid, tid, track) for (pid, tid), track in sorted(tracks.items())]


def _meta(kind: str, pid: int, tid: int, name: str) -> Event:
    return {"name": kind, "ph": "M", "ts": 0, "pid": pid, "tid": tid, "args": {"name": name}}
