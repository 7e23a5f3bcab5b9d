import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from analysis.measures.levels import Level, level, places
from simulator.eventlog import Recorder
from tests.analysis.factories import run_of


def test_a_cut_carries_what_is_inside():
    # Case D16: 5 enter before the cut, 3 leave after it: 2 are inside at the end, not -3.
    enter = np.array([1.0, 2.0, 3.0, 4.0, 5.0])
    leave = np.array([11.0, 12.0, 13.0, math.nan, math.nan])
    cut = level(enter, leave).within((10.0, 20.0))
    assert cut.times_s.tolist() == [10.0, 11.0, 12.0, 13.0]
    assert cut.values.tolist() == [5, 4, 3, 2]


def test_an_average_is_over_time_not_over_changes():
    # Case D16: 0 for 9 s and 10 for 1 s is 1 on average, not 5.
    own = level(np.full(10, 9.0), np.full(10, math.nan))
    assert own.time_average((0.0, 10.0)) == pytest.approx(1.0)
    with pytest.raises(ValueError, match="empty"):
        own.time_average((5.0, 5.0))


def test_changes_of_one_instant_are_one_step_and_the_new_level_holds_from_then():
    own = level(np.array([0.0, 2.0, math.nan]), np.array([2.0, 4.0, 9.0]))
    assert (own.times_s.tolist(), own.values.tolist()) == ([0.0, 2.0, 4.0], [1, 1, 0])
    assert own.at(np.array([-1.0, 0.0, 1.9, 2.0, 4.0, 99.0])).tolist() == [0, 1, 1, 1, 0, 0]


spans = st.lists(st.tuples(st.integers(0, 30), st.none() | st.integers(0, 10)), max_size=15)


@given(spans, st.integers(0, 30), st.integers(1, 20))
def test_against_a_count_second_by_second(drawn, begin, length):
    enter = np.array([a for a, _ in drawn], dtype=float)
    leave = np.array([math.nan if d is None else a + d for a, d in drawn])
    inside = [
        sum(a <= second and (d is None or a + d > second) for a, d in drawn)
        for second in range(begin, begin + length)
    ]
    own = level(enter, leave)
    assert own.at(np.arange(begin, begin + length, dtype=float)).tolist() == inside
    assert own.time_average((begin, begin + length)) == pytest.approx(np.mean(inside))
    cut = own.within((begin, begin + length))
    assert isinstance(cut, Level)
    assert cut.time_average((begin, begin + length)) == pytest.approx(np.mean(inside))


def test_every_rollout_is_in_one_place_and_leaves_where_it_was_dropped():
    recorder = Recorder()
    times = ("started_s", "finished_s", "enqueued_s", "consumed_s")
    for rollout, moments in enumerate(
        ((0.0, 1.0, 2.0, 3.0), (0.0, 1.0, None, 3.0), (0.0, None, None, 3.0), (0.0, 1.0, 2.0, None))
    ):
        recorder.add_rollout(rollout_id=rollout, status="any", **dict(zip(times, moments, strict=True)))
    found = places(run_of(recorder).rollouts)
    seconds = np.array([0.5, 1.5, 2.5, 3.5])
    assert {name: own.at(seconds).tolist() for name, own in found.items()} == {
        "in flight": [4, 1, 1, 0],
        "waiting": [0, 3, 1, 0],
        "queue": [0, 0, 2, 1],
    }
