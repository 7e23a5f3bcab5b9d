"""Losses and gradients of an independent library, to 1e-12. https://pypi.org/project/polgrad/."""

import dataclasses
from functools import partial

import polgrad
import pytest
import torch
from torch import Tensor

from algorithms import diagnostics
from algorithms.advantage import group_centred, leave_one_out, moments, sample_std, whiten
from algorithms.aggregate import constant, sequence_mean, token_mean
from algorithms.estimator import Estimator
from algorithms.gae import skip_observation_gae, value_targets
from algorithms.grpo import grpo
from algorithms.ratio import per_sequence, per_token, per_token_old
from algorithms.rollout import Batch
from algorithms.trust import TrustRegion, dual_clip, ppo_clip, score
from tests.laws.compositions import policy_near, random_batch

BY_STD = partial(group_centred, scale=sample_std, eps=1e-4)


def right_padded(seed: int) -> Batch:
    """Their GAE knows no observations, and their groups have at least two members."""
    batch = random_batch(seed)
    lengths = batch.action_tokens
    return dataclasses.replace(
        batch,
        action_mask=torch.arange(batch.action_mask.shape[1]) < lengths[:, None],
        old_log_probs=batch.behaviour_log_probs,
        group_ids=torch.tensor([4, 4, 4, 9, 9, 9, 4]),
        truncated=torch.zeros_like(batch.truncated),
    )


def estimator(trust: TrustRegion, aggregate, advantage=BY_STD, log_ratio=per_token_old) -> Estimator:
    return Estimator(advantage=advantage, log_ratio=log_ratio, trust=trust, aggregate=aggregate)


OURS = {
    "ppo": estimator(ppo_clip(0.2, 0.2), token_mean),
    "grpo": dataclasses.replace(grpo(eps_high=0.2), advantage=BY_STD),
    "dr_grpo": estimator(ppo_clip(0.2, 0.2), constant(11), group_centred),
    "dapo": estimator(ppo_clip(0.2, 0.28), token_mean),
    "gspo": estimator(ppo_clip(3e-4, 4e-4), sequence_mean, log_ratio=per_sequence),
    "rloo": estimator(score, constant(1), leave_one_out, per_token),
}


def theirs(name: str) -> polgrad.PolicyLossConfig:
    norm = {"norm_len": 11} if name == "dr_grpo" else {}
    return dataclasses.replace(polgrad.ALGORITHMS[name].loss, kl=None, **norm)


def compare(ours: Estimator, config: polgrad.PolicyLossConfig, batch: Batch, policy: Tensor) -> None:
    advantages = ours.advantage(batch)
    leaves = [policy.clone().requires_grad_() for _ in range(2)]
    loss = ours.loss(leaves[0], batch, advantages=advantages, total=ours.total(batch))
    wanted = polgrad.policy_loss(
        config,
        logprobs=leaves[1],
        old_logprobs=batch.behaviour_log_probs,
        advantages=advantages,
        response_mask=batch.action_mask,
    ).loss
    torch.testing.assert_close(loss, wanted, rtol=1e-12, atol=1e-13)
    loss.backward()
    wanted.backward()
    torch.testing.assert_close(leaves[0].grad, leaves[1].grad, rtol=1e-12, atol=1e-13)


@pytest.mark.parametrize("name", OURS)
@pytest.mark.parametrize("seed", range(4))
@pytest.mark.parametrize("distance", [0.01, 0.5, 3.0])
def test_loss_and_gradient(name: str, seed: int, distance: float):
    batch = right_padded(seed)
    compare(OURS[name], theirs(name), batch, policy_near(batch, distance, seed))


@pytest.mark.parametrize("seed", range(4))
def test_dual_clip(seed: int):
    config = theirs("dapo")
    assert config.clip is not None
    config = dataclasses.replace(config, clip=dataclasses.replace(config.clip, ratio_cap=3.0))
    batch = right_padded(seed)
    compare(
        estimator(dual_clip(0.2, 0.28, cap=3.0), token_mean), config, batch, policy_near(batch, 2.0, seed)
    )


@pytest.mark.parametrize("seed", range(4))
def test_group_advantages(seed: int):
    batch = right_padded(seed)
    for scale, name in ((None, "dr_grpo"), (sample_std, "grpo")):
        config = polgrad.ALGORITHMS[name].advantage_config
        wanted = polgrad.grpo_advantages(batch.returns, batch.group_ids, config)
        got = group_centred(batch, scale=scale, eps=config.eps)
        torch.testing.assert_close(got[:, 0], wanted, rtol=1e-12, atol=1e-13)
    wanted = polgrad.rloo_advantages(batch.returns, batch.group_ids)
    torch.testing.assert_close(leave_one_out(batch)[:, 0], wanted, rtol=1e-12, atol=1e-13)


@pytest.mark.parametrize("seed", range(4))
@pytest.mark.parametrize(("gamma", "lam"), [(1.0, 1.0), (0.99, 0.95), (0.9, 0.0)])
def test_gae(seed: int, gamma: float, lam: float):
    batch = right_padded(seed)
    advantages, returns = polgrad.gae(
        batch.rewards,
        batch.values,
        config=polgrad.GAEConfig(gamma=gamma, lam=lam),
        response_mask=batch.action_mask,
    )
    torch.testing.assert_close(
        skip_observation_gae(batch, gamma=gamma, lam=lam), advantages, rtol=1e-12, atol=1e-13
    )
    torch.testing.assert_close(
        value_targets(batch, gamma=gamma, lam_critic=lam), returns, rtol=1e-12, atol=1e-13
    )


def test_whitening():
    # Their small constant sits under the root, ours beside it.
    batch = right_padded(0)
    mask = batch.action_mask
    got = whiten(batch.rewards, mask, total=moments(batch.rewards, mask))
    torch.testing.assert_close(got, polgrad.whiten(batch.rewards, mask), rtol=1e-7, atol=1e-8)


@pytest.mark.parametrize("kind", ["k1", "k3"])
def test_divergences(kind: str):
    batch = right_padded(1)
    policy = policy_near(batch, 0.5)
    # Their estimate is of KL(first || second), from samples of the first: here of the behaviour.
    per_token_kl = polgrad.kl_estimate(
        batch.behaviour_log_probs, policy, polgrad.KLEstimator(kind), response_mask=batch.action_mask
    )
    wanted = per_token_kl[batch.action_mask].mean().item()
    got = getattr(diagnostics, kind)(policy - batch.behaviour_log_probs, batch.action_mask)
    assert got == pytest.approx(wanted, rel=1e-12)
