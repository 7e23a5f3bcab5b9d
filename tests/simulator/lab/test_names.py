"""The names that a command line reads say of each method what is true of it."""

from typing import get_args

import pytest
import torch

from simulator.lab.methods import METHODS
from simulator.lab.names import CRITICS, SINGLE, EstimatorName
from tests.algorithms.make import batch


def test_every_name_has_its_method_and_every_method_its_name() -> None:
    assert set(get_args(EstimatorName)) == set(METHODS)


@pytest.mark.parametrize("name", METHODS)
def test_who_trains_a_critic(name: str) -> None:
    assert (METHODS[name]().estimator.critic is not None) == (name in CRITICS)


@pytest.mark.parametrize("name", sorted(set(METHODS) - CRITICS))
def test_who_can_learn_from_one_rollout_a_prompt(name: str) -> None:
    rewards = torch.zeros(6, 3)
    rewards[:, -1] = torch.tensor([0.0, 1, 1, 0, 1, 1])
    ones = torch.ones(6, 3)
    alone = batch(
        ones.bool(),
        torch.float32,
        rewards=rewards,
        group_ids=torch.arange(6),
        baselines=torch.full((6,), 0.3),
        old_log_probs=-ones,
        proximal_log_probs=-ones,
        reference_log_probs=-ones,
        behaviour_log_probs=-ones,
    )
    learns = bool((METHODS[name]().estimator.advantage(alone) != 0).any())
    assert learns == (name in SINGLE)
