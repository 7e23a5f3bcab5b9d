"""What did the machines do, moment by moment? A run as Chrome trace events, for ui.perfetto.dev.

Times are microseconds of the run's clock. The trainer and each engine are a process. Slices: what the trainer
did or waited for; of an engine its rollouts, with the versions within, and what some of its slots did or why
they were idle. Counters: rollouts in flight, waiting and queued, versions, lag of each batch.

A viewer has limits: a trace holds a window of updates, some engines, some tracks of each, and at most so many
events; what was left out is counted in `otherData`.

Format: the "Trace Event Format" document of the Chromium project,
https://docs.google.com/document/d/1CvAClvFfyA5R-PhYUmn5OOQtYMH4h6I0nSsKchNAySU; its phases used here are X
(complete slice), C (counter) and M (name and place of a process or track).
"""

from __future__ import annotations

import json
from typing import Any, Final

import numpy as np
import pandas as pd

from analysis.measures.lag import of_status, rollout_lags
from analysis.measures.levels import Level, places
from analysis.runs import Run
from analysis.trace.engines import engine_events
from analysis.trace.events import COUNTERS, TRAINER, Event, count, name_of, spells

MAX_EVENTS: Final = 100_000
"""Bounds the file at roughly 15 MB, which a browser opens at once."""


def chrome_trace(
    run: Run, *, updates: int = 50, engines: int = 8, tracks: int = 4, max_events: int = MAX_EVENTS
) -> Event:
    """The first updates of a run as one JSON object; `json.dumps` of it is the file.

    Args:
        updates: how many optimizer updates the window spans, from the start.
        engines: engines shown; the others still count in the counters.
        tracks: of each engine, tracks of rollouts shown, and slots.
        max_events: the window is cut where it would hold more.
    """
    ends_s = run.updates["train_end_s"].to_numpy(dtype=float)
    if len(ends_s) == 0:
        raise ValueError(f"run {run.arm!r} seed {run.seed} has no update to show")
    shown = min(updates, len(ends_s))
    end_s = float(ends_s[shown - 1])
    of_engines, left_out = engine_events(run, end_s, engines=engines, tracks=tracks)
    events = [*_trainer(run, end_s), *of_engines, *_counters(run, end_s)]
    timed = [event for event in events if event["ph"] != "M"]
    timed.sort(key=lambda event: (event["ts"], -event.get("dur", 0.0)))
    kept = timed[:max_events]
    return {
        "traceEvents": [event for event in events if event["ph"] == "M"] + kept,
        "displayTimeUnit": "ms",
        "otherData": {
            "arm": run.arm,
            "seed": run.seed,
            "clock": run.clock,
            "window_s": end_s,
            "updates": shown,
            "updates_left_out": len(ends_s) - shown,
            **left_out,
            "events_left_out": len(timed) - len(kept),
        },
    }


def trace_json(run: Run, **choices: int) -> str:
    """The trace as text, compact, and refused if a number in it is not finite."""
    return json.dumps(chrome_trace(run, **choices), separators=(",", ":"), allow_nan=False)


def _trainer(run: Run, end_s: float) -> list[Event]:
    """Everything that is no engine: one track each."""
    own = run.intervals.loc[
        ~run.intervals["resource"].str.startswith("engine") & (run.intervals["start_s"] < end_s)
    ]
    events = [*name_of(TRAINER, "trainer"), *name_of(COUNTERS, "pipeline")]
    for track, (resource, spans) in enumerate(own.groupby("resource", sort=True)):
        events += name_of(TRAINER, str(resource), track=track)
        events += spells(spans, TRAINER, track, end_s=end_s)
    return events


def _counters(run: Run, end_s: float) -> list[Event]:
    updates = run.updates
    published = updates.loc[updates["published_s"].notna()]
    lags = of_status(rollout_lags(run.rollouts, run.segments), ("trained",)).merge(
        run.rollouts[["rollout_id", "consumed_version"]], on="rollout_id"
    )
    # An update to version v starts at version v - 1: its batch was consumed there.
    batch_lag = updates["version"].sub(1).map(lags.groupby("consumed_version")["oldest"].mean())
    return [
        *(event for name, level in places(run.rollouts).items() for event in _steps(name, level, end_s)),
        *_series("version (trainer)", updates["train_end_s"], updates["version"], end_s),
        *_series("version (engines)", published["published_s"], published["version"], end_s),
        *_series("lag, oldest token, batch mean (updates)", updates["train_start_s"], batch_lag, end_s),
    ]


def _steps(name: str, level: Level, end_s: float) -> list[Event]:
    within = level.times_s < end_s
    return [
        count(f"{name} (rollouts)", at_s, value)
        for at_s, value in zip(level.times_s[within], level.values[within], strict=True)
    ]


def _series(name: str, times_s: pd.Series[float], values: pd.Series[Any], end_s: float) -> list[Event]:
    known = ((times_s <= end_s) & np.isfinite(values.astype(float))).to_numpy()
    return [count(name, at_s, value) for at_s, value in zip(times_s[known], values[known], strict=True)]
