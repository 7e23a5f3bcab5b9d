import dataclasses
import math

import numpy as np
import pytest

from analysis.measures.idle import shares
from analysis.measures.steady import busy_share, lag_by_update, steady_states
from tests.analysis.factories import recorded, run_of

RUN = run_of(recorded([0.1] * 240, lag=2, step_s=10.0, tokens=30))


def test_a_run_that_repeats_itself_is_known_for_certain():
    found = steady_states(RUN)
    # Of every ten seconds the trainer waits a quarter, the engine decodes a quarter, and 30 tokens pass.
    for name, value in {"trainer_idle": 0.25, "engine_idle": 0.75, "trained_tokens_per_s": 3.0}.items():
        interval = found[name].interval
        assert (interval.estimate, interval.low, interval.high) == pytest.approx((value,) * 3), name
    # The first two updates find no older version than the first.
    assert lag_by_update(RUN.rollouts)[:4].tolist() == [0.0, 1.0, 2.0, 2.0]
    assert found["mean_lag"].interval.estimate == pytest.approx(2.0)
    assert found["mean_lag"].warm_up >= 5


def test_shares_by_span_are_shares_of_the_whole_cut_anywhere():
    edges = np.array([0.0, 3.0, 17.5, 400.0, 2400.0])
    for kind, resource in (("trainer", "trainer"), ("engines", "engine-0/slot-0")):
        found = busy_share(RUN.intervals, kind, edges)
        for share, start, end in zip(found, edges, edges[1:], strict=False):
            table = shares(RUN.intervals, (float(start), float(end))).set_index("resource")
            assert share == pytest.approx(table.loc[resource, "busy"]), (kind, start)
    assert np.isnan(busy_share(RUN.intervals, "nobody", edges)).all()


def test_overlapping_spells_of_one_machine_count_once_and_machines_are_averaged():
    busy = RUN.intervals.iloc[:0].copy()
    rows = [("engine-0/slot-0", 0.0, 6.0), ("engine-0/slot-0", 4.0, 8.0), ("engine-0/slot-1", 0.0, 2.0)]
    for resource, start, end in rows:
        busy.loc[len(busy)] = {
            "resource": resource, "state": "busy", "cause": "decode", "start_s": start, "end_s": end
        }  # fmt: skip
    assert busy_share(busy, "engines", np.array([0.0, 10.0])) == pytest.approx([(0.8 + 0.2) / 2])


def test_a_short_run_says_so_and_an_imposed_lag_has_no_long_run():
    short = steady_states(run_of(recorded([0.1] * 8)))
    assert short["mean_lag"].note == "8 values; 100 are needed"
    assert math.isnan(short["mean_lag"].interval.low)
    assert steady_states(dataclasses.replace(RUN, clock="imposed")) == {}
