import json
import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from analysis.chrometrace import chrome_trace, lanes, trace_json
from tests.analysis.factories import learning_run, recorded, run_of


def check_format(trace: dict) -> None:
    """What the trace event format demands of every event."""
    last = -math.inf
    named = {(e["pid"], e["tid"]) for e in trace["traceEvents"] if e["name"] == "thread_name"}
    for event in trace["traceEvents"]:
        assert {"ph", "ts", "pid", "name"} <= set(event)
        assert event["ph"] in ("X", "C", "M")
        if event["ph"] == "M":
            continue
        assert event["ts"] >= last >= -math.inf
        last = event["ts"]
        if event["ph"] == "X":
            assert event["dur"] >= 0
            assert (event["pid"], event["tid"]) in named
        else:
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
    trainer = [(e["name"], e["ts"], e["dur"]) for e in slices if e["cat"] == "trainer"]
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


def test_only_the_first_slots_are_drawn_but_all_are_counted():
    trace = chrome_trace(busy_run(), slots=1)
    assert {e["tid"] for e in trace["traceEvents"] if e["ph"] == "X" and e["pid"] == 2} == {0}
    assert max(value for _, value in counter(trace, "in flight (rollouts)")) > 1


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
