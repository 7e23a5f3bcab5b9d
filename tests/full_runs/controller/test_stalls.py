from __future__ import annotations

from typing import Any

from full_runs.controller.stalls import without_stalls


def row(start_s: float, end_s: float, **changes: Any) -> dict[str, Any]:
    spell = {"resource": "engine-0/slot-1", "state": "busy", "cause": "decode"}
    return spell | {"start_s": start_s, "end_s": end_s} | changes


def still(start_s: float, end_s: float) -> dict[str, Any]:
    return row(start_s, end_s, state="idle", cause="sync")


def test_a_request_over_two_pushes_is_five_spells():
    found = list(without_stalls([row(0.0, 10.0)], [(2.0, 3.0), (6.0, 8.0)]))
    assert found == [row(0.0, 2.0), still(2.0, 3.0), row(3.0, 6.0), still(6.0, 8.0), row(8.0, 10.0)]


def test_stalls_that_begin_before_or_end_after_it_are_cut_to_it():
    found = list(without_stalls([row(1.0, 4.0)], [(0.0, 2.0), (3.0, 9.0)]))
    assert found == [still(1.0, 2.0), row(2.0, 3.0), still(3.0, 4.0)]
    assert list(without_stalls([row(1.0, 4.0)], [(0.0, 9.0)])) == [still(1.0, 4.0)]


def test_stalls_that_only_touch_it_change_nothing():
    assert list(without_stalls([row(1.0, 4.0)], [(0.0, 1.0), (4.0, 5.0)])) == [row(1.0, 4.0)]


def test_no_time_is_lost_and_what_is_no_decoding_slot_stays():
    trainer, waits = row(0.0, 9.0, resource="trainer"), row(0.0, 9.0, state="idle", cause="gate_closed")
    stalls = [(1.0, 2.5), (2.5, 4.0)]
    assert list(without_stalls([trainer, waits], stalls)) == [trainer, waits]
    cut = list(without_stalls([row(0.5, 9.0)], stalls))
    assert sum(r["end_s"] - r["start_s"] for r in cut) == 8.5
    assert sum(r["end_s"] - r["start_s"] for r in cut if r["cause"] == "sync") == 3.0
