"""Expected gradients against laws and hand arithmetic."""

import dataclasses
import math

import numpy as np
import pytest
import torch
from torch import Tensor

from algorithms.advantage import group_centred
from algorithms.aggregate import constant, sequence_mean, token_mean
from algorithms.catalogue import by_name
from algorithms.diagnostics import k3
from algorithms.estimator import Estimator
from algorithms.ratio import per_sequence_product, per_token
from algorithms.trust import double_sided_mask, importance_weighted, inside, ppo_clip, score
from simulator.exact.gradient import drift_nats, exact_advantages, expected_gradient, listed
from simulator.exact.world import World, random_walk, random_world

T64 = torch.float64
ON_POLICY_REINFORCE = ("grpo", "grpo_behaviour_clip", "grpo_dis", "sao", "sao_running_mean")


def made(trust, log_ratio=per_token, aggregate=None) -> Estimator:
    return Estimator(
        advantage=group_centred, log_ratio=log_ratio, trust=trust, aggregate=aggregate or constant(1)
    )


def pair(seed: int, lag: int) -> tuple[World, World]:
    world = random_world(np.random.default_rng(seed))
    return world, random_walk(world, lag, np.random.default_rng(100 + seed))[lag]


def off(got: Tensor, true: Tensor) -> float:
    return float((got - true).norm() / true.norm())


@pytest.mark.parametrize("name", ON_POLICY_REINFORCE)
@pytest.mark.parametrize("seed", range(3))
def test_on_fresh_data_the_catalogue_is_reinforce(name: str, seed: int):
    world, _ = pair(seed, 0)
    # Both its means, over tokens and over a rollout's tokens, halve the sum over two tokens.
    assert off(2 * expected_gradient(by_name()[name](), world, world).mean, world.gradient()) < 1e-12


@pytest.mark.parametrize("lag", [1, 4, 64])
def test_the_weight_of_the_whole_rollout_is_unbiased_at_any_lag(lag: int):
    world, stale = pair(1, lag)
    exact = made(importance_weighted, per_sequence_product, sequence_mean)
    assert off(expected_gradient(exact, world, stale).mean, world.gradient()) < 1e-12


def test_a_token_ratio_is_biased_for_two_tokens_and_exact_for_one():
    world, stale = pair(2, 4)
    assert off(expected_gradient(made(importance_weighted), world, stale).mean, world.gradient()) > 1e-2
    short = World(logits=world.logits[:1], rewards=world.rewards[:3], length_tokens=1)
    got = expected_gradient(made(importance_weighted), short, short.at(stale.logits[:1]))
    assert off(got.mean, short.gradient()) < 1e-12


def test_a_band_that_holds_every_ratio_is_the_token_ratio():
    world, stale = pair(3, 16)
    wide = expected_gradient(made(double_sided_mask(1.0, math.inf)), world, stale)
    plain = expected_gradient(made(importance_weighted), world, stale)
    torch.testing.assert_close(wide.mean, plain.mean, rtol=1e-12, atol=1e-15)
    assert wide.variance == pytest.approx(plain.variance, rel=1e-12)
    assert wide.flat == wide.masked == wide.clipped == 0


HAND = World(
    logits=torch.tensor([[0.5, 0.25, 0.25]], dtype=T64).log(),
    rewards=torch.tensor([1.0, 0.0, 0.0], dtype=T64),
    length_tokens=1,
)
STALE = HAND.at(torch.tensor([[0.25, 0.5, 0.25]], dtype=T64).log())


def test_one_token_by_hand_dis_misses_what_it_masks():
    """Ratios 2, 1/2, 1; advantages 3/4, -1/4, -1/4. DIS(0.3, 5) drops token 1, half of mu.

    Missing: pi(1) A(1) (e_1 - pi) = -1/16 (-1/2, 3/4, -1/4). True: 1/2 (e_0 - pi) = (1/4, -1/8, -1/8).
    """
    assert exact_advantages(HAND, STALE)[:, 0].tolist() == pytest.approx([0.75, -0.25, -0.25])
    assert HAND.gradient()[0].tolist() == pytest.approx([1 / 4, -1 / 8, -1 / 8])
    got = expected_gradient(made(double_sided_mask(0.3, 5.0)), HAND, STALE)
    assert (got.mean - HAND.gradient())[0].tolist() == pytest.approx([-1 / 32, 3 / 64, -1 / 64])
    assert (got.masked, got.clipped, got.flat) == pytest.approx((0.5, 0, 0.5))


def test_one_token_by_hand_ppo_clips_by_sign():
    """PPO(0.2, 0.28): token 0 is above with A > 0, token 1 below with A < 0; only token 2 moves anything.

    E g = pi(2) A(2) (e_2 - pi) = -1/16 (-1/2, -1/4, 3/4), from a quarter of mu. One rollout's gradient is
    that over 1/4 with probability 1/4: E|g|^2 = 4 |E g|^2, so the variance is 3 |E g|^2 = 3 * 7/8 / 256.
    """
    got = expected_gradient(made(ppo_clip(0.2, 0.28)), HAND, STALE)
    assert got.mean[0].tolist() == pytest.approx([1 / 32, 1 / 64, -3 / 64])
    assert (got.masked, got.clipped, got.flat) == pytest.approx((0, 0.75, 0.75))
    assert got.variance == pytest.approx(3 * 7 / 8 / 256)


def test_kept_tokens_alone_divide_if_the_estimator_counts_them_alone():
    dropping = dataclasses.replace(made(double_sided_mask(0.3, 5.0)), aggregate=token_mean)
    counting = dataclasses.replace(dropping, counted=inside(0.3, 5.0))
    a, b = (expected_gradient(one, HAND, STALE).mean for one in (dropping, counting))
    torch.testing.assert_close(b, 2 * a)  # half of the tokens are kept


def test_without_a_correction_staleness_shows_in_full():
    """pi_old is the current policy, so GRPO's ratio is one and its gradient that of the plain score."""
    world, stale = pair(4, 4)
    ours = expected_gradient(by_name()["grpo"](), world, stale).mean
    plain = expected_gradient(made(score), world, stale).mean
    torch.testing.assert_close(2 * ours, plain, rtol=1e-12, atol=1e-15)
    assert off(2 * ours, world.gradient()) > 1e-2


@pytest.mark.parametrize("trust", [ppo_clip(0.2, 0.28), double_sided_mask(0.3, 5.0), importance_weighted])
def test_batches_of_one_or_nine_agree_for_a_loss_that_reads_rollouts_apart(trust):
    world, stale = pair(5, 8)
    one, nine = (expected_gradient(made(trust), world, stale, rollouts_a_batch=n) for n in (1, 9))
    torch.testing.assert_close(one.mean, nine.mean, rtol=1e-12, atol=1e-15)
    assert dataclasses.astuple(one)[1:] == pytest.approx(dataclasses.astuple(nine)[1:], rel=1e-12)


def test_variance_is_that_of_samples():
    world, stale = pair(6, 4)
    got = expected_gradient(made(importance_weighted), world, stale)
    mu, scores = stale.probabilities(), world.scores()
    ratio = (world.log_probs() - stale.log_probs()).exp()
    each = torch.einsum("yt,ytsv->ysv", ratio * exact_advantages(world, stale), scores)
    second = float(mu @ each.square().sum((1, 2)))
    assert got.variance == pytest.approx(second - float(got.mean.square().sum()), rel=1e-12)


def test_drift_is_a_kl_and_the_mean_of_k3():
    world, stale = pair(7, 4)
    batch, mu = listed(world, stale), stale.probabilities()
    ratio = world.log_probs() - stale.log_probs()
    of_k3 = sum(float(mu[y]) * k3(ratio[y : y + 1], batch.action_mask[y : y + 1]) for y in range(len(mu)))
    assert drift_nats(world, stale) == pytest.approx(of_k3, rel=1e-12)
    assert drift_nats(world, world) == 0
    assert drift_nats(HAND, STALE) == pytest.approx(0.25 * math.log(2))  # mu log(mu / pi), by hand
