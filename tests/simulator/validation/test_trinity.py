"""A period of the synchronous mode in closed form is the pipeline's; fits find what made their targets."""

from dataclasses import replace

import numpy as np
import pytest

from simulator.validation.trinity import (
    asynchronous,
    checkpoint_s,
    one_step_off,
    seconds_a_step,
    synchronous,
)
from simulator.validation.trinity_fit import (
    ALFWORLD,
    GSM8K,
    STEP_S,
    Costs,
    ends_in_slots_s,
    fit_by_batch,
    fit_with_utilisation,
    for_batch,
    period,
)

SMALL = ALFWORLD[0]
COSTS = Costs(rollout_s=10.0, sigma=0.3, train_s=4.0, sync_s=1.0, slots=16)


def test_rollouts_take_the_slot_that_is_free_first():
    # slot 0: 3, then 5 until 8; slot 1: 4, then 1 until 5
    assert ends_in_slots_s(np.array([3.0, 4.0, 5.0, 1.0]), 2).tolist() == [3.0, 4.0, 8.0, 5.0]


@pytest.mark.parametrize("interval", [1, 2, 10])
def test_a_synchronous_period_in_closed_form_is_the_pipelines(interval):
    simulated_s = seconds_a_step(synchronous(SMALL, COSTS, interval=interval))
    assert simulated_s == pytest.approx(period(COSTS, SMALL.batch, interval)[0], rel=0.05)


def test_one_step_off_trains_while_it_explores_and_async_waits_for_neither():
    """Where training is longer, a step is training and a sync, or a share of a checkpoint."""
    slow = replace(COSTS, train_s=100.0)
    assert seconds_a_step(one_step_off(SMALL, slow)) == pytest.approx(101.0)
    assert seconds_a_step(asynchronous(SMALL, slow)) == pytest.approx(100 + checkpoint_s(SMALL) / 10)
    lags = one_step_off(SMALL, slow).log.rollouts.to_pandas().query("status == 'trained'")
    assert set(lags.consumed_version - lags.oldest_version) == {0, 1}


def test_the_fit_finds_both_bottlenecks_from_steps_and_utilisation():
    for made in (
        Costs(rollout_s=4.0, sigma=0.2, train_s=3.0, sync_s=2.0, slots=64),
        Costs(rollout_s=1.0, sigma=0.2, train_s=9.0, sync_s=2.0, slots=64),
    ):
        setting = replace(GSM8K[0], batch=192)
        periods = {k: period(made, setting.batch, k, batches=4) for k in (1, 2, 10)}
        setting = replace(
            setting,
            synchronous_min={k: step_s / STEP_S for k, (step_s, _) in periods.items()},
            utilisation={
                k: (2 * explored_s + 6 * made.train_s) / 8 / step_s
                for k, (step_s, explored_s) in periods.items()
            },
        )
        found = fit_with_utilisation(setting, slots=64, batches=4)
        assert found.train_s == pytest.approx(made.train_s, rel=0.02)
        assert found.rollout_s == pytest.approx(made.rollout_s, rel=0.02)


def test_the_fit_over_batch_sizes_finds_durations_and_the_cost_of_a_rollout():
    made = Costs(rollout_s=100.0, sigma=0.4, train_s=0.2, sync_s=0.0, slots=64)
    settings = tuple(
        replace(
            setting,
            synchronous_min={
                k: period(for_batch(made, setting.batch), setting.batch, k, batches=4)[0] / STEP_S
                for k in (1, 2, 10)
            },
        )
        for setting in ALFWORLD
    )
    result = fit_by_batch(settings, slots=64, batches=4)
    np.testing.assert_allclose(np.exp(result.x), [100.0, 0.4, 0.2], rtol=0.02)
