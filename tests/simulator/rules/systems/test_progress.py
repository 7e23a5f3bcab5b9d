"""What could never reach the next push is refused; what just can is not."""

import pytest

from simulator.rules.systems.shape import Shape
from simulator.systems.aged import GLM5, SAO, KimiPartial, PrimeRL, Torchforge
from simulator.systems.gated import Areal, NemoWindowed, OpenInstruct, Roll, SkyRL, Tinker, VerlV1Drop

# Three batches of two updates a push: at the last update, the engines' weights are five updates old.
THREE_OF_TWO = Shape(batch_rollouts=8, updates_per_batch=2, batches_per_push=3, slots=16)


@pytest.mark.parametrize(
    ("refused", "accepted"),
    [
        (SAO(max_lag_updates=4), SAO(max_lag_updates=5)),
        (PrimeRL(max_off_policy_steps=4), PrimeRL(max_off_policy_steps=5)),
        (NemoWindowed(max_trajectory_age_steps=1), NemoWindowed(max_trajectory_age_steps=2)),
        (Torchforge(max_policy_age=1), Torchforge(max_policy_age=2)),
        (Tinker(max_steps_off_policy=1), Tinker(max_steps_off_policy=2)),
        (OpenInstruct(async_steps=2), OpenInstruct(async_steps=3)),
        (VerlV1Drop(max_age_steps=2), VerlV1Drop(max_age_steps=3)),
    ],
    ids=lambda system: system.kind,
)
def test_an_age_limit_takes_what_is_as_fresh_as_can_be(refused, accepted):
    with pytest.raises(ValueError, match="age limit takes nothing that is 5 updates old"):
        refused.rule(THREE_OF_TWO)
    accepted.rule(THREE_OF_TWO)


@pytest.mark.parametrize(
    ("refused", "accepted"),
    [
        (Areal(max_head_offpolicyness=1), Areal(max_head_offpolicyness=2)),
        (SkyRL(max_staleness_steps=1), SkyRL(max_staleness_steps=2)),
        (Roll(async_generation_ratio=1.5), Roll(async_generation_ratio=2.0)),
    ],
    ids=lambda system: system.kind,
)
def test_a_gate_starts_all_batches_of_a_push(refused, accepted):
    with pytest.raises(ValueError, match="its gate does not start the 3 batches"):
        refused.rule(THREE_OF_TWO)
    accepted.rule(THREE_OF_TWO)


def test_engines_that_stand_still_until_the_push_start_no_second_batch():
    with pytest.raises(ValueError, match="batches_per_push must be 1, got 3"):
        KimiPartial().rule(THREE_OF_TWO)


def test_a_push_bounds_age_in_pushes_and_few_at_once_are_enough():
    GLM5(max_age_pushes=0).rule(THREE_OF_TWO)
    Areal(max_head_offpolicyness=2, max_concurrent_rollouts=1).rule(THREE_OF_TWO)


def test_the_last_update_of_a_batch_counts_as_well():
    with pytest.raises(ValueError, match="3 updates old"):
        SAO(max_lag_updates=2).rule(Shape(batch_rollouts=8, updates_per_batch=4))
