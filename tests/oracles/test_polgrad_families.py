"""Named compositions against an independent library, to 1e-12. https://pypi.org/project/polgrad/."""

import dataclasses
from functools import partial

import polgrad
import pytest
import torch

from algorithms.advantage import group_centred, sample_std
from algorithms.cispo import cispo
from algorithms.dapo import dapo
from algorithms.dr_grpo import dr_grpo
from algorithms.estimator import Estimator
from algorithms.gspo import gspo, gspo_token
from algorithms.rloo import rloo
from tests.laws.compositions import policy_near, random_batch

BY_STD = partial(group_centred, scale=sample_std, eps=1e-4)

OURS: dict[str, Estimator] = {
    "cispo": cispo(advantage=BY_STD),
    "dapo": dapo(advantage=BY_STD),
    "dr_grpo": dr_grpo(tokens=11),
    "gspo": gspo(advantage=BY_STD),
    "gspo_token": gspo_token(advantage=BY_STD),
    "rloo": rloo(),
}


def theirs(name: str) -> polgrad.PolicyLossConfig:
    norm = {"norm_len": 11} if name == "dr_grpo" else {}
    return dataclasses.replace(polgrad.ALGORITHMS[name].loss, kl=None, **norm)


@pytest.mark.parametrize("name", OURS)
@pytest.mark.parametrize("seed", range(4))
@pytest.mark.parametrize("distance", [1e-4, 0.01, 0.5, 3.0])
def test_loss_and_gradient(name: str, seed: int, distance: float):
    batch = random_batch(seed)
    batch = dataclasses.replace(
        batch, old_log_probs=batch.behaviour_log_probs, group_ids=torch.tensor([4, 4, 4, 9, 9, 9, 4])
    )
    policy = policy_near(batch, distance, seed)
    advantages = OURS[name].advantage(batch)
    spec = polgrad.ALGORITHMS[name]
    wanted_advantages = (
        polgrad.rloo_advantages(batch.returns, batch.group_ids)
        if name == "rloo"
        else polgrad.grpo_advantages(batch.returns, batch.group_ids, spec.advantage_config)
    )
    torch.testing.assert_close(advantages[:, 0], wanted_advantages, rtol=1e-12, atol=1e-13)
    ours, other = (policy.clone().requires_grad_() for _ in range(2))
    loss = OURS[name].loss(ours, batch, advantages=advantages, total=OURS[name].total(batch))
    wanted = polgrad.policy_loss(
        theirs(name),
        logprobs=other,
        old_logprobs=batch.behaviour_log_probs,
        advantages=wanted_advantages,
        response_mask=batch.action_mask,
    ).loss
    torch.testing.assert_close(loss, wanted, rtol=1e-12, atol=1e-13)
    loss.backward()
    wanted.backward()
    torch.testing.assert_close(ours.grad, other.grad, rtol=1e-12, atol=1e-13)


@pytest.mark.parametrize("low", [0.2, 0.9])
def test_cispo_with_a_lower_bound(low: float):
    config = theirs("cispo")
    assert config.clip is not None
    config = dataclasses.replace(config, clip=dataclasses.replace(config.clip, eps_low=low))
    batch = random_batch(0)
    batch = dataclasses.replace(batch, old_log_probs=batch.behaviour_log_probs)
    ours, other = (policy_near(batch, 2.0).requires_grad_() for _ in range(2))
    estimator = cispo(eps_low=low)
    advantages = estimator.advantage(batch)
    estimator.loss(ours, batch, advantages=advantages, total=estimator.total(batch)).backward()
    polgrad.policy_loss(
        config,
        logprobs=other,
        old_logprobs=batch.behaviour_log_probs,
        advantages=advantages,
        response_mask=batch.action_mask,
    ).loss.backward()
    torch.testing.assert_close(ours.grad, other.grad, rtol=1e-12, atol=1e-13)
