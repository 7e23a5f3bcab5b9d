"""Completion and its times, with those that never ended."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from analysis.measures.completion import Seconds, completion, time_quantile
from simulator.eventlog import Recorder
from simulator.world.failures import Failures
from tests.analysis.factories import run_of
from tests.simulator.runs import in_turn, simulate


def timed_out() -> Recorder:
    """100 are asked for at 0; 60 of them end after 0.5, 1, ... 30 s, and 40 are given up at 60 s."""
    recorder = Recorder()
    for i in range(100):
        own = (
            {"status": "trained", "finished_s": 0.5 * (i + 1), "consumed_s": 31.0}
            if i < 60
            else {"status": "dropped", "reason": "group_deadline", "consumed_s": 60.0}
        )
        recorder.add_rollout(rollout_id=i, submitted_s=0.0, action_tokens=100, **own)
    return recorder


def test_what_timed_out_is_part_of_every_number():
    """Case D19: the survivors alone would say that all ended and that the 99th percentile is 30 s."""
    found = completion(run_of(timed_out()).rollouts, 60.0)
    assert (found.offered, found.completed, found.share) == (100, 60, 0.6)
    assert found.goodput_tokens_per_s == pytest.approx(100.0)
    assert str(found.p99) == ">=60 s (censored)"
    assert str(found.p90) == ">=60 s (censored)"
    # half of the hundred had ended when the fiftieth did
    assert str(found.p50) == "25 s"


def test_a_run_says_the_same_of_itself():
    # a slot, 3 s a rollout; the third would take 100 s and is given up after 20 s, the last is under way
    result = simulate(workload=in_turn(3, 3, 100, 3), updates=3, failures=Failures(group_deadline_s=20.0))
    found = completion(result.log.rollouts.to_pandas(), result.end_s)
    assert (result.end_s, found.offered, found.completed) == (31.0, 5, 3)
    assert found.goodput_tokens_per_s == pytest.approx(9 / 31)
    assert (str(found.p50), str(found.p99)) == ("3 s", ">=20 s (censored)")


@given(st.lists(st.integers(1, 9), min_size=1, max_size=20), st.sampled_from([0.1, 0.5, 0.9, 0.99]))
def test_where_everything_ended_it_is_the_inverted_cdf(drawn, level):
    times = np.array(drawn, dtype=float)
    found = time_quantile(times, np.ones(len(times), dtype=bool), level)
    assert found == Seconds(value=np.quantile(times, level, method="inverted_cdf"), censored=False)


@given(st.lists(st.tuples(st.integers(1, 9), st.booleans()), min_size=1, max_size=20))
def test_watching_for_longer_never_makes_a_percentile_shorter(drawn):
    times, happened = np.array([t for t, _ in drawn], dtype=float), np.array([h for _, h in drawn])
    longer = np.where(happened, times, times + 5)
    for level in (0.25, 0.5, 0.9):
        before, after = time_quantile(times, happened, level), time_quantile(longer, happened, level)
        assert after.value >= before.value


def test_nothing_has_no_times():
    with pytest.raises(ValueError, match="nothing to measure"):
        completion(run_of(Recorder()).rollouts, 60.0)
