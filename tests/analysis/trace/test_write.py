import json
import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from analysis.trace.engines import lanes
from analysis.trace.events import FIRST_ENGINE, TRAINER
from analysis.trace.write import chrome_trace, trace_json
from tests.analysis.factories import learning_run, recorded, run_of


def check_format(trace: dict) -> None:
    """What the trace event format demands of every event, and a viewer needs to name it."""
    assert set(trace) == {"traceEvents", "displayTimeUnit", "otherData"}
    assert trace["displayTimeUnit"] in ("ms", "ns")
    last = -math.inf
    named = {(e["pid"], e["tid"]) for e in trace["traceEvents"] if e["name"] == "thread_name"}
    processes = {e["pid"] for e in trace["traceEvents"] if e["name"] == "process_name"}
    for event in trace["traceEvents"]:
        assert {"name", "ph", "ts", "pid", "tid", "args"} <= set(event)
        assert isinstance(event["name"], str)
        assert event["name"]
        assert isinstance(event["pid"], int)
        assert isinstance(event["tid"], int)
        assert event["ph"] in ("X", "C", "M")
        assert event["pid"] in processes
        if event["ph"] == "M":
            key = "sort_index" if event["name"].endswith("_sort_index") else "name"
            assert event["name"] in ("process_name", "thread_name", "process_sort_index", "thread_sort_index")
            assert isinstance(event["args"][key], int if key == "sort_index" else str)
            continue
        assert math.isfinite(event["ts"])
        assert event["ts"] >= max(last, 0)
        last = event["ts"]
        if event["ph"] == "X":
            assert event["dur"] >= 0
            assert (event["pid"], event["tid"]) in named
        else:
            assert event["args"]
            assert all(math.isfinite(value) for value in event["args"].values())
    check_nesting(trace)


def check_nesting(trace: dict) -> None:
    """Slices of one track nest or follow each other; a viewer drops those that cross."""
    for track in {(e["pid"], e["tid"]) for e in trace["traceEvents"] if e["ph"] == "X"}:
        open_until: list[float] = []
        for event in trace["traceEvents"]:
            if event["ph"] != "X" or (event["pid"], event["tid"]) != track:
                continue
            begin, end = event["ts"], event["ts"] + event["dur"]
            while open_until and open_until[-1] <= begin + 0.01:
                open_until.pop()
            assert not open_until or end <= open_until[-1] + 0.01
            open_until.append(end)


def busy_run():
    recorder = recorded([0.1, 0.2, 0.3, 0.4], lag=1, step_s=2.0)
    for i, (start, end) in enumerate(((0.0, 3.0), (1.0, 2.5), (2.5, None), (0.5, 7.0))):
        recorder.add_rollout(rollout_id=100 + i, status="in_flight", started_s=start, finished_s=end)
        recorder.add_segment(
            rollout_id=100 + i, version=0, start_token=0, tokens=3, start_s=start, end_s=end or 4.0
        )
    return run_of(recorder)


def counter(trace: dict, name: str) -> list[tuple[float, float]]:
    events = [e for e in trace["traceEvents"] if e["ph"] == "C" and e["name"] == name]
    return [(e["ts"], e["args"]["value"]) for e in events]


def test_a_trace_is_valid_json_in_the_format():
    trace = json.loads(trace_json(busy_run()))
    check_format(trace)
    assert {e["ph"] for e in trace["traceEvents"]} == {"X", "C", "M"}


def test_times_are_microseconds_and_the_window_ends_with_the_last_update_shown():
    trace = chrome_trace(busy_run(), updates=2)
    assert trace["otherData"]["window_s"] == 4.0
    slices = [e for e in trace["traceEvents"] if e["ph"] == "X"]
    assert max(e["ts"] + e["dur"] for e in slices) == pytest.approx(4e6)
    trainer = [(e["name"], e["ts"], e["dur"]) for e in slices if e["pid"] == TRAINER]
    assert trainer == [
        ("idle: no_batch", 0.0, 5e5),
        ("policy_update", 5e5, 1.5e6),
        ("idle: no_batch", 2e6, 5e5),
        ("policy_update", 2.5e6, 1.5e6),
    ]


def test_counters_count():
    run = busy_run()
    trace = chrome_trace(run)
    for at_us, value in counter(trace, "in flight (rollouts)"):
        started, finished = (run.rollouts[c].fillna(math.inf).to_numpy() for c in ("started_s", "finished_s"))
        assert value == ((started <= at_us / 1e6) & (finished > at_us / 1e6)).sum()
    assert counter(trace, "version (trainer)") == [(2e6, 1), (4e6, 2), (6e6, 3), (8e6, 4)]
    assert counter(trace, "lag, oldest token, batch mean (updates)") == [
        (5e5, 0),
        (2.5e6, 1),
        (4.5e6, 1),
        (6.5e6, 1),
    ]


def test_more_than_a_viewer_can_open_is_left_out_and_counted():
    whole, short = chrome_trace(busy_run()), chrome_trace(busy_run(), max_events=5)
    kept = [e for e in short["traceEvents"] if e["ph"] != "M"]
    assert len(kept) == 5
    assert (
        short["otherData"]["events_left_out"] == len([e for e in whole["traceEvents"] if e["ph"] != "M"]) - 5
    )
    check_format(short)


def test_only_the_first_tracks_are_drawn_but_all_are_counted():
    trace = chrome_trace(busy_run(), tracks=1)
    drawn = [e for e in trace["traceEvents"] if e["ph"] == "X" and e.get("cat") == "rollout"]
    assert {e["tid"] for e in drawn} == {0}
    assert trace["otherData"]["rollouts_left_out"] == len(busy_run().rollouts) - len(drawn) > 0
    assert max(value for _, value in counter(trace, "in flight (rollouts)")) > 1


def many_engines():
    """Three engines of two slots; engine 1 also as a whole; a cause that nobody has heard of, and none."""
    recorder = recorded([0.1, 0.2], step_s=2.0)
    for engine in range(3):
        for slot in range(2):
            name = f"engine-{engine}/slot-{slot}"
            if (engine, slot) == (0, 0):
                continue  # there already
            recorder.add_interval(resource=name, state="busy", cause="decode", start_s=0.0, end_s=3.0)
            recorder.add_interval(resource=name, state="idle", cause="cosmic_ray", start_s=3.0, end_s=None)
        recorder.add_rollout(
            rollout_id=100 + engine, engine=engine, status="dropped", started_s=0.5, consumed_s=1.5
        )
        recorder.add_segment(rollout_id=100 + engine, version=0, start_token=0, tokens=1, start_s=0.5)
    recorder.add_interval(resource="engine-1", state="idle", cause="sync", start_s=1.0, end_s=2.0)
    recorder.add_interval(resource="critic", state="idle", cause=None, start_s=0.0, end_s=1.0)
    return run_of(recorder)


def test_each_engine_is_a_process_and_every_cause_a_named_slice():
    trace = chrome_trace(many_engines())
    check_format(trace)
    processes = {e["pid"]: e["args"]["name"] for e in trace["traceEvents"] if e["name"] == "process_name"}
    engines = {FIRST_ENGINE + i: f"engine {i}" for i in range(3)}
    assert processes == {1: "trainer", 2: "pipeline", **engines}
    spells = [(e["name"], e["pid"], e["ts"], e["dur"]) for e in trace["traceEvents"] if e["ph"] == "X"]
    assert ("idle: sync", FIRST_ENGINE + 1, 1e6, 1e6) in spells
    assert ("idle: unaccounted", TRAINER, 0, 1e6) in spells
    # Open at the end: it lasts as long as the window, 4 s.
    assert spells.count(("idle: cosmic_ray", FIRST_ENGINE + 2, 3e6, 1e6)) == 2
    # Aborted while it decoded: it and its open segment end when it was dropped.
    assert ("rollout 102", FIRST_ENGINE + 2, 5e5, 1e6) in spells
    assert ("version 0", FIRST_ENGINE + 2, 5e5, 1e6) in spells


def test_engines_and_slots_beyond_the_limit_are_counted():
    left = chrome_trace(many_engines(), engines=2, tracks=1)["otherData"]
    assert left["engines_left_out"] == 1
    # Drawn: slot 0 of engine 0, and engine 1 as a whole. Seven resources are engines' own.
    assert left["slots_left_out"] == 5
    assert left["updates_left_out"] == 0
    assert chrome_trace(many_engines(), updates=1)["otherData"]["updates_left_out"] == 1


@given(st.lists(st.tuples(st.integers(0, 30), st.integers(1, 10)), max_size=25))
def test_lanes_never_overlap_and_are_no_more_than_ever_run_at_once(spans):
    starts = np.array([a for a, _ in spans], dtype=float)
    ends = np.array([a + d for a, d in spans], dtype=float)
    lane = lanes(starts, ends)
    for i in range(len(spans)):
        for j in range(i):
            assert lane[i] != lane[j] or ends[i] <= starts[j] or ends[j] <= starts[i]
    at_once = max((((starts <= s) & (ends > s)).sum() for s in starts), default=0)
    assert len(set(lane)) == at_once


def test_a_run_without_updates_has_nothing_to_show():
    run = learning_run([])
    with pytest.raises(ValueError, match="no update to show"):
        chrome_trace(run)
