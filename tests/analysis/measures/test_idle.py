import math

import numpy as np
import pandas as pd
import pytest
from hypothesis import given
from hypothesis import strategies as st

from analysis.measures.idle import clip, idle_by_cause, machine_kind, merge, shares, union_s


def intervals(*rows: tuple[str, str, str, float, float]) -> pd.DataFrame:
    return pd.DataFrame(rows, columns=["resource", "state", "cause", "start_s", "end_s"])


def pauses(open_end_s: float) -> pd.DataFrame:
    return intervals(
        ("engine-0", "busy", "decode", 0.0, 10.0),
        ("engine-0", "idle", "sync", 10.0, 30.0),
        ("engine-0", "busy", "decode", 30.0, 50.0),
        ("engine-0", "idle", "sync", 50.0, 60.0),
        ("engine-0", "busy", "decode", 60.0, 90.0),
        ("engine-0", "idle", "gate_closed", 90.0, open_end_s),
        *([] if math.isnan(open_end_s) else [("engine-0", "busy", "decode", open_end_s, 200.0)]),
    )


def test_every_pause_of_a_window_counts_and_one_that_is_open_counts_up_to_its_end():
    # Case B22, first window: the fault saw only the last pause and said .10.
    (row,) = shares(pauses(math.nan), (0.0, 100.0)).to_dict("records")
    assert row["idle"] == pytest.approx(0.40)
    assert row["busy_s"] + row["idle_s"] == pytest.approx(100.0)
    causes = idle_by_cause(pauses(math.nan), (0.0, 100.0)).set_index("cause")["idle"].to_dict()
    assert causes == pytest.approx({"sync": 0.30, "gate_closed": 0.10})


def test_a_pause_over_the_edge_is_split_between_the_windows_not_counted_twice():
    # Case B22, next window: the pause that began at 90 ends at 110.
    first, second = (
        shares(pauses(110.0), window)["idle"].item() for window in ((0.0, 100.0), (100.0, 200.0))
    )
    assert (first, second) == pytest.approx((0.40, 0.10))


def test_time_about_which_the_log_is_silent_is_idle_and_named():
    table = intervals(
        ("trainer", "busy", "policy_update", 0.0, 25.0), ("trainer", "idle", "push", 25.0, 50.0)
    )
    causes = idle_by_cause(table, (0.0, 100.0)).set_index("cause")["idle"].to_dict()
    assert causes == pytest.approx({"push": 0.25, "unaccounted": 0.5})


spans = st.lists(st.tuples(st.integers(-5, 60), st.integers(0, 30)), max_size=12)


@given(spans=spans, begin=st.integers(0, 20), length=st.integers(1, 30))
def test_union_is_the_number_of_seconds_that_some_span_covers(spans, begin, length):
    window = (float(begin), float(begin + length))
    array = np.array([(a, a + d) for a, d in spans], dtype=float).reshape(-1, 2)
    covered = sum(any(a <= s < a + d for a, d in spans) for s in range(begin, begin + length))
    assert union_s(array, window) == covered
    merged = merge(clip(array, window))
    assert (merged[1:, 0] > merged[:-1, 1]).all()  # disjoint and in order


@given(busy=spans, idle=spans, other=spans)
def test_shares_stay_in_bounds_and_the_causes_add_up_whatever_was_logged(busy, idle, other):
    rows = [
        ("trainer", state, cause, float(a), float(a + d))
        for state, cause, own in (("busy", "x", busy), ("idle", "y", idle), ("idle", "z", other))
        for a, d in own
    ]
    table = intervals(*rows)
    measured = shares(table, (0.0, 50.0))
    assert len(measured) == min(1, len(rows))
    for row in measured.to_dict("records"):
        assert 0 <= row["idle"] <= 1
        assert row["busy_s"] + row["idle_s"] == pytest.approx(50.0)
        by_cause = idle_by_cause(table, (0.0, 50.0))
        assert by_cause["idle"].sum() == pytest.approx(row["idle"])
        assert (by_cause["idle"] > 0).all()


def by_the_definition(table: pd.DataFrame, window: tuple[float, float]) -> list[tuple[str, str, float]]:
    """Resource by resource and cause by cause: what each adds to the seconds that are covered."""
    found = []
    for resource, own in sorted(table.groupby("resource")):
        cause = own["cause"].fillna("unaccounted")
        spans = own[["start_s", "end_s"]].to_numpy(dtype=float)
        chosen = (own["state"] == "busy").to_numpy()
        covered_s = union_s(spans[chosen], window)
        seconds: dict[str, float] = {}
        for name in dict.fromkeys(cause[own["state"] == "idle"]):
            chosen = chosen | ((own["state"] == "idle") & (cause == name)).to_numpy()
            reach_s = union_s(spans[chosen], window)
            seconds[name], covered_s = reach_s - covered_s, reach_s
        seconds["unaccounted"] = seconds.get("unaccounted", 0.0) + window[1] - window[0] - covered_s
        found += [(resource, name, spent_s) for name, spent_s in seconds.items() if spent_s > 0]
    return found


machines = st.sampled_from(["trainer", "engine-0", "engine-1/slot-0"])
said = st.sampled_from(["busy", "idle", "paused"])  # a state that is neither is no work, and no reason
words = st.sampled_from(["sync", "gate", None])
open_or_not = st.one_of(st.integers(0, 30), st.just(math.inf))
logged = st.lists(st.tuples(machines, said, words, st.integers(-5, 60), open_or_not), max_size=25)


@given(logged=logged, begin=st.integers(0, 20), length=st.integers(1, 40))
def test_all_machines_at_once_come_to_what_each_comes_to_alone(logged, begin, length):
    rows = [
        (machine, state, cause, float(a), math.nan if math.isinf(d) else float(a + d))
        for machine, state, cause, a, d in logged
    ]
    table, window = intervals(*rows), (float(begin), float(begin + length))
    found = idle_by_cause(table, window)
    assert list(found[["resource", "cause", "idle_s"]].itertuples(index=False, name=None)) == (
        by_the_definition(table, window)
    )
    whole = shares(table, window)
    assert whole["resource"].tolist() == sorted(set(table["resource"]))
    for name, busy_s in zip(whole["resource"], whole["busy_s"], strict=True):
        busy = table.loc[(table["resource"] == name) & (table["state"] == "busy"), ["start_s", "end_s"]]
        assert busy_s == union_s(busy.to_numpy(dtype=float).reshape(-1, 2), window)


def test_a_pause_that_opens_after_the_window_is_not_in_it():
    assert union_s(np.array([[120.0, math.nan], [90.0, math.nan]]), (0.0, 100.0)) == 10.0
    assert len(clip(np.array([[120.0, math.nan]]), (0.0, 100.0))) == 0


def test_an_interval_that_ends_before_it_starts_is_refused():
    with pytest.raises(ValueError, match="ends before it starts"):
        clip(np.array([[5.0, 4.0]]), (0.0, 10.0))
    with pytest.raises(ValueError, match="empty"):
        clip(np.array([[4.0, 5.0]]), (10.0, 10.0))


def test_a_warm_up_cut_leaves_statistics_behind_but_not_the_state():
    # Case D16: a pause that began in the warm-up is still a pause after it, a busy spell still busy.
    table = intervals(
        ("trainer", "idle", "no_batch", 0.0, 12.0),
        ("trainer", "busy", "policy_update", 12.0, 30.0),
    )
    (row,) = shares(table, (10.0, 20.0)).to_dict("records")
    assert (row["idle_s"], row["busy_s"]) == (2.0, 8.0)


def test_a_cause_that_nobody_has_heard_of_keeps_its_name():
    table = intervals(
        ("engine-0", "idle", "cosmic_ray", 0.0, 2.0),
        ("engine-0", "busy", "prefill", 2.0, 3.0),
        ("engine-0", "idle", None, 3.0, 4.0),
    )
    causes = idle_by_cause(table, (0.0, 4.0)).set_index("cause")["idle_s"].to_dict()
    assert causes == {"cosmic_ray": 2.0, "unaccounted": 1.0}


def test_an_engine_whose_slots_are_named_is_not_counted_with_them():
    whole_only = pd.Series(["trainer", "engine-0", "engine-1", "critic"])
    assert machine_kind(whole_only).tolist() == ["trainer", "engines", "engines", "critic"]
    both = pd.Series(["engine-0", "engine-0/slot-0", "engine-10/slot-3", "trainer"])
    assert machine_kind(both).tolist() == ["whole engines", "engines", "engines", "trainer"]
