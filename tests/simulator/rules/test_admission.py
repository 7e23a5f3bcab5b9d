"""The exact gates, each off-by-one pinned by hand."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from simulator.rules.admission import (
    UNLIMITED,
    always,
    back_pressure,
    bounded_run_ahead,
    next_batch_while_training,
    synchronous,
)
from simulator.rules.on_sync import after_the_batch, in_flight
from tests.simulator.rules.counts import counts


def test_areal_starts_eta_plus_one_batches():
    # v=0, eta=2, B=4
    assert bounded_run_ahead(2)(counts()) == 12


def test_areal_is_capped_by_concurrency():
    assert bounded_run_ahead(2, max_concurrent_rollouts=10)(counts()) == 10
    assert bounded_run_ahead(2, max_concurrent_rollouts=10)(counts(submitted=7, running=7)) == 3
    # (10 + 0 + 1) x 32 = 352, capped by 100
    assert bounded_run_ahead(10)(counts(batch=32)) == 352
    assert bounded_run_ahead(10, max_concurrent_rollouts=100)(counts(batch=32)) == 100


def test_areal_counts_what_was_accepted_as_well_as_what_runs():
    assert bounded_run_ahead(1)(counts(submitted=7, running=2, version=1)) == 12 - 7


def test_an_answer_may_be_negative():
    assert bounded_run_ahead(0)(counts(submitted=6)) == -2


def test_synchronous_waits_for_the_weights_of_the_last_batch():
    assert synchronous(counts()) == 4
    assert synchronous(counts(submitted=4, running=1, outstanding=4)) == 0
    assert synchronous(counts(submitted=4, taken=1)) == 0  # trained, perhaps, but not yet published
    assert synchronous(counts(submitted=4, taken=1, version=1)) == 4


def test_one_step_off_starts_the_next_batch_when_this_one_is_taken():
    assert next_batch_while_training(counts()) == 4
    assert next_batch_while_training(counts(submitted=4, outstanding=4)) == 0
    assert next_batch_while_training(counts(submitted=4, taken=1)) == 4
    assert next_batch_while_training(counts(submitted=8, taken=1, version=1)) == 0


def test_one_step_off_swaps_weights_between_batches():
    assert not after_the_batch(counts(submitted=4, taken=1))  # the next batch has not even started
    assert not after_the_batch(counts(submitted=8, running=1, taken=1))
    assert after_the_batch(counts(submitted=8, running=0, taken=1))
    assert in_flight(counts(submitted=8, running=8, taken=1))


def test_no_gate_and_back_pressure():
    assert always(counts(submitted=10**9)) == UNLIMITED
    assert back_pressure(always, 10)(counts(outstanding=7)) == 3
    assert back_pressure(synchronous, 10)(counts(outstanding=7, submitted=3)) == 1


@pytest.mark.parametrize(("eta", "concurrent"), [(-1, None), (0, 0)])
def test_impossible_gates_are_refused(eta, concurrent):
    with pytest.raises(ValueError, match="must be at least"):
        bounded_run_ahead(eta, max_concurrent_rollouts=concurrent)


numbers = st.integers(0, 50)


@given(numbers, numbers, numbers, numbers, st.integers(1, 20))
def test_only_starts_lower_an_answer(submitted, running, taken, version, batch):
    def at(**changes):
        state = {
            "submitted": submitted,
            "running": running,
            "taken": taken,
            "version": version,
            "batch": batch,
        }
        return counts(**{**state, **changes})

    for rule in (synchronous, next_batch_while_training, bounded_run_ahead(2, max_concurrent_rollouts=9)):
        now = rule(at())
        assert now - 1 <= rule(at(submitted=submitted + 1, running=running + 1)) <= now
        for later in ({"taken": taken + 1}, {"version": version + 1}, {"running": running - 1}):
            assert rule(at(**later)) >= now
