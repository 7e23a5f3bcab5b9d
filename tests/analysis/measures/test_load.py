import dataclasses
import math

import numpy as np
import pytest

from analysis.measures.lag_split import PARTS, lag_split
from analysis.measures.load import Load, load, load_outcomes, predicted, settled
from tests.analysis.factories import recorded, run_of

HALF = Load(slots=64, batch_rollouts=32, updates_per_batch=1, rho=0.5, group_ratio=3.0, queue_batches=None)


def test_a_load_is_read_off_the_log():
    # An hour an update: a rollout decodes for a quarter, then the trainer is busy for three.
    found = load(run_of(recorded(None, lag=2)))
    assert found == Load(
        slots=0.25, batch_rollouts=1, updates_per_batch=1, rho=0.75, group_ratio=1.0, queue_batches=None
    )
    expected = predicted(found)
    assert (expected["generation"], expected["queue"], expected["lag"]) == (0.25, 0.75, 1.0)


def test_the_longest_of_two_is_what_a_group_waits_for():
    # 300 s or 900 s: the longer of two is 750 s on average, of a mean of 600 s.
    run = run_of(recorded(None))
    i = np.arange(len(run.rollouts))
    run.rollouts["group_id"] = i // 2
    run.rollouts["finished_s"] = run.rollouts["started_s"] + np.where(i % 2, 900.0, 300.0)
    found = load(run)
    assert found.slots == pytest.approx(1 / 6)
    assert found.group_ratio == pytest.approx(1.25, abs=2e-3)
    assert predicted(found)["group_wait"] == pytest.approx(0.25 / 6, abs=1e-3)


def test_updates_that_share_a_batch_were_taken_at_one_instant():
    run = run_of(recorded(None))
    taken_s = run.rollouts["consumed_s"].to_numpy()
    run.rollouts["consumed_s"] = np.repeat(taken_s[1::2], 2)
    found = load(run)
    assert (found.updates_per_batch, found.batch_rollouts) == (2, 2)
    assert predicted(found)["trainer_ahead"] == 0.5


def test_the_closed_form_by_part_and_in_sum():
    parts = predicted(HALF)
    assert parts == pytest.approx(
        {"generation": 2.0, "group_wait": 4.0, "queue": 0.5, "trainer_ahead": 0.0, "lag": 6.5}
    )
    four = predicted(dataclasses.replace(HALF, updates_per_batch=4))
    assert four["lag"] == pytest.approx(4 * 6.5 + 1.5)


def test_a_trainer_that_is_behind_needs_a_queue_with_an_end():
    behind = dataclasses.replace(HALF, rho=2.0)
    assert all(map(math.isnan, predicted(behind).values()))
    # (2 q + rho - 1) / 2 rho = 5/4; what is generated ages half as fast.
    parts = predicted(dataclasses.replace(behind, queue_batches=2.0))
    assert (parts["generation"], parts["queue"]) == pytest.approx((1.0, 1.25))


def test_a_queue_that_blocks_drops_nothing_and_has_no_capacity_in_the_formula():
    capacity = {"queue_capacity_rollouts": 6}
    run = dataclasses.replace(run_of(recorded(None)), config=capacity)
    assert load(run).queue_batches == 6.0
    blocking = dataclasses.replace(run, config={"pipeline": capacity | {"queue_full": "block"}})
    assert load(blocking).queue_batches is None


def test_what_came_out_is_of_rollouts_after_the_filling():
    run = run_of(recorded(None, lag=2))
    found = settled(run, lag_split(run.rollouts, run.updates))
    assert found["lag"] == 2.0  # the first two had no data so old
    assert sum(found[part] for part in PARTS) == 2.0


def test_an_imposed_lag_and_a_run_without_updates_have_no_load():
    run = run_of(recorded(None), clock="imposed")
    assert load(run) is None
    assert all(map(math.isnan, load_outcomes(run, lag_split(run.rollouts, run.updates)).values()))
    simulated = run_of(recorded(None))
    assert load(dataclasses.replace(simulated, updates=simulated.updates.iloc[:0])) is None
    assert load(dataclasses.replace(simulated, updates=simulated.updates.iloc[:1])) is None
