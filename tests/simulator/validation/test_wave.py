"""The closed form of a wave is what the pipeline makes of it."""

import numpy as np
import pytest

from simulator.rules.staleness import sync
from simulator.validation.wave import Speed, ends_s, lognormal_sample, trained_by_s
from simulator.world.decoding import LoadDependent
from tests.simulator.runs import Lengths, simulate


def test_a_wave_on_paper():
    """Lengths 1, 2 and 4, a = 1, b = 0.5, c = 0.1: one step of three, one of two, two of one.

    Keys and values read, taken as continuous: n u^2 / 2 from 0 to 1 with n = 3, and so on.
    """
    engine = LoadDependent(step_fixed_s=1.0, step_s_per_rollout=0.5, step_s_per_kv_token=0.1)
    first = 1 + 0.5 * 3 + 0.1 * 3 / 2
    second = first + 1 + 0.5 * 2 + 0.1 * 2 * (4 - 1) / 2
    third = second + 2 + 0.5 * 2 + 0.1 * (16 - 4) / 2
    np.testing.assert_allclose(ends_s(np.array([4.0, 1.0, 2.0]), engine), [third, first, second])


@pytest.mark.parametrize("per_kv_token_s", [0.0, 2e-3])
def test_a_wave_in_the_pipeline_ends_as_the_closed_form_says(per_kv_token_s):
    speed = Speed(fixed_s=0.3, per_rollout_s=0.2, per_kv_token_s=per_kv_token_s)
    lengths = np.random.default_rng(1).integers(1, 60, 24)
    done = simulate(
        workload=Lengths(lambda prompt, _member: int(lengths[prompt])),
        rule=sync(),
        slots=24,
        engine=speed.spread_over(4),
        rollouts_per_update=24,
        updates=1,
    )
    rows = done.log.rollouts.to_pandas().sort_values("rollout_id")
    np.testing.assert_allclose(rows.finished_s, ends_s(lengths, speed.spread_over(4)), rtol=1e-9)


def test_equal_engines_decode_as_one_of_their_sum():
    speed = Speed(fixed_s=0.3, per_rollout_s=0.2, per_kv_token_s=1e-3)
    one = ends_s(np.array([5.0, 9.0]), speed.spread_over(1))
    both = ends_s(np.array([5.0, 5.0, 9.0, 9.0]), speed.spread_over(2))
    np.testing.assert_allclose(both, np.repeat(one, 2))


def test_a_batch_is_trained_when_it_is_ready_and_the_trainer_free():
    # ready at 1: until 4; ready at 2, waits: until 7; ready at 10: until 13
    assert trained_by_s(np.array([10.0, 1.0, 2.0]), 3.0) == 13.0


def test_lengths_move_smoothly_with_the_law_and_stop_at_the_cap():
    short, long = (lognormal_sample(64, mean=mean, sigma=0.5, cap=1e9) for mean in (100.0, 200.0))
    np.testing.assert_allclose(long, 2 * short)
    assert lognormal_sample(64, mean=100.0, sigma=2.0, cap=120.0).max() == 120.0
