"""VCPO's loss against hand arithmetic and the compositions that it is near."""

import dataclasses
import math

import pytest
import torch

from algorithms.aggregate import constant
from algorithms.correction import sequence_ratio
from algorithms.ratio import per_token_old
from algorithms.rloo import rloo
from algorithms.trust import importance_weighted
from algorithms.vcpo import vcpo
from tests.algorithms.make import T64, batch, rows
from tests.laws.compositions import loss_and_gradient, policy_near, random_batch


def test_by_hand():
    """Rewards 1 and 0: advantages 1 and -1. Weights e^3 -> 8 and e^-.5, on the sum over each rollout."""
    everything = torch.ones(2, 2, dtype=torch.bool)
    record = batch(
        everything,
        rewards=rows([0.0, 1.0], [0.0, 0.0]),
        group_ids=torch.tensor([0, 0]),
        behaviour_log_probs=rows([-2.0, -2.0], [-1.0, -1.0]),
        old_log_probs=rows([0.5, -1.5], [-1.25, -1.25]),
    )
    _, gradient = loss_and_gradient(vcpo(), torch.zeros(2, 2, dtype=T64), record)
    wanted = torch.tensor([[-8.0] * 2, [math.exp(-0.5)] * 2], dtype=T64) / 2
    torch.testing.assert_close(gradient, wanted, rtol=1e-5, atol=0)


@pytest.mark.parametrize("seed", range(3))
def test_without_a_cap_it_is_the_exact_weight_of_the_rollout(seed: int):
    record = random_batch(seed)
    policy = policy_near(record, 0.5, seed)
    record = dataclasses.replace(record, old_log_probs=policy)
    _, gradient = loss_and_gradient(vcpo(cap=math.inf), policy, record)
    exact = dataclasses.replace(vcpo(), correction=sequence_ratio)
    _, same = loss_and_gradient(exact, policy, record)
    torch.testing.assert_close(gradient, same)
    # Before the first update a ratio against pi_old changes no gradient.
    _, again = loss_and_gradient(vcpo(cap=math.inf, trust=importance_weighted), policy, record)
    torch.testing.assert_close(gradient, again)


def test_on_policy_it_is_reinforce_with_another_constant_for_a_scale():
    """Group of two, rewards 1 and 0: leave-one-out gives +-1, and so does the population deviation."""
    record = batch(
        [[1, 1], [1]], rewards=rows([0.0, 1.0], [0.0]), group_ids=torch.tensor([3, 3]),
        old_log_probs=rows([0.0, 0.0], [0.0]),
    )  # fmt: skip
    policy = torch.zeros(2, 2, dtype=T64)
    assert vcpo().log_ratio is per_token_old
    _, gradient = loss_and_gradient(vcpo(aggregate=constant(1)), policy, record)
    _, reference = loss_and_gradient(rloo(), policy, record)
    torch.testing.assert_close(gradient, reference, rtol=1e-5, atol=0)
