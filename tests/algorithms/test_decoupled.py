"""Compositions with a correction: what each is made of, its limits, and exact expectations."""

import dataclasses
import math

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from torch import Tensor

from algorithms.a3po import interpolated
from algorithms.aggregate import constant, sequence_mean
from algorithms.catalogue import by_name
from algorithms.correction import (
    Correction,
    sequence_ratio,
    sequence_truncated,
    token_ratio,
    token_truncated,
    unweighted,
)
from algorithms.critic import CriticRecipe
from algorithms.decoupled import decoupled_ppo
from algorithms.estimator import Estimator
from algorithms.gae import skip_observation_gae
from algorithms.grpo import grpo
from algorithms.icepop import icepop, kpop
from algorithms.mis import geometric_rs, k3_rs, mis_po, sequence_mis, veto_rs
from algorithms.rejection import token_band
from algorithms.tis import sequence_tis, token_tis
from tests.algorithms.make import T64, bandit, batch, rows
from tests.laws.compositions import loss_and_gradient, policy_near, random_batch
from tests.oracles.test_enumeration import exact_gradient, log_probs, rewards, tables

NAN = math.nan
GROUPED = {
    "token_tis": token_tis,
    "sequence_tis": sequence_tis,
    "sequence_mis": sequence_mis,
    "geometric_rs": geometric_rs,
    "k3_rs": k3_rs,
    "veto_rs": veto_rs,
    "icepop": icepop,
    "kpop": kpop,
    "decoupled_ppo": decoupled_ppo,
}


@pytest.mark.parametrize("name", GROUPED)
@pytest.mark.parametrize("seed", range(3))
def test_where_the_engine_is_the_proximal_policy_all_are_plain_ppo(name: str, seed: int):
    b = random_batch(seed)
    b = dataclasses.replace(b, old_log_probs=b.behaviour_log_probs)
    now = policy_near(b, 0.5, seed)
    # Decoupled PPO has AReaL's clip of 0.2 on both sides, the others that of this library's GRPO.
    plain = grpo(eps_high=0.2) if name == "decoupled_ppo" else grpo()
    for got, wanted in zip(
        loss_and_gradient(GROUPED[name](), now, b), loss_and_gradient(plain, now, b), strict=True
    ):
        torch.testing.assert_close(got, wanted, rtol=1e-12, atol=1e-14)


def test_without_bounds_all_that_weigh_tokens_are_decoupled_ppo():
    b = random_batch(3)
    now = policy_near(b, 0.5)
    wanted = loss_and_gradient(decoupled_ppo(eps_high=0.28), now, b)
    for estimator in (
        token_tis(cap=math.inf),
        icepop(floor=0.0, ceiling=math.inf),
        kpop(delta=math.inf, weight=token_ratio),
        geometric_rs(floor=0.0, ceiling=math.inf, weight=token_ratio),
        decoupled_ppo(eps_high=0.28, correction=token_truncated(math.inf)),
    ):
        for got, want in zip(loss_and_gradient(estimator, now, b), wanted, strict=True):
            torch.testing.assert_close(got, want, rtol=0, atol=0)
    by_rollout = loss_and_gradient(sequence_tis(cap=math.inf), now, b)
    unbounded = loss_and_gradient(sequence_mis(floor=0.0, ceiling=math.inf), now, b)
    assert torch.equal(by_rollout[1], unbounded[1])


def gradient(estimator: Estimator, b, now: Tensor, advantages: Tensor) -> Tensor:
    leaf = now.clone().requires_grad_()
    estimator.loss(leaf, b, advantages=advantages, total=estimator.total(b)).backward()
    assert leaf.grad is not None
    return leaf.grad


def test_decoupled_ppo_clips_from_the_proximal_policy_and_weighs_from_the_engine():
    # r = 1.1, 1.5 and 1.5, w = 2: kept, clipped above, kept because the advantage is negative.
    old = rows([-1.0, -1.0, -1.0])
    b = batch([[1, 1, 1]], behaviour_log_probs=old - math.log(2.0), old_log_probs=old)
    now = old + rows([1.1, 1.5, 1.5]).log()
    got = gradient(decoupled_ppo(aggregate=constant(1)), b, now, rows([1.0, 1.0, -1.0]))
    torch.testing.assert_close(got, rows([-2.2, 0.0, 3.0]))


def test_decoupled_ppos_weight_may_be_capped_or_dropped():
    old = rows([-1.0, -1.0])
    b = batch([[1, 1]], behaviour_log_probs=old - rows([4.0, 10.0]).log(), old_log_probs=old)
    one = torch.ones(1, 2, dtype=T64)
    for correction, wanted in (
        (token_ratio, [-4.0, -10.0]),
        (token_truncated(5.0), [-4.0, -5.0]),
        (token_band(floor=0.0, ceiling=5.0), [-4.0, 0.0]),
    ):
        got = gradient(decoupled_ppo(correction=correction, aggregate=constant(1)), b, old, one)
        torch.testing.assert_close(got, rows(wanted))


def expected(correction: Correction, theta: Tensor, stale: Tensor, reward: Tensor) -> Tensor:
    """E_mu of decoupled PPO's ascent direction at pi = pi_prox, over all nine responses."""
    estimator = decoupled_ppo(correction=correction, aggregate=constant(1))
    leaf = theta.clone().requires_grad_()
    pi, mu = log_probs(leaf), log_probs(stale)
    b = batch(torch.ones(9, 2, dtype=torch.bool), behaviour_log_probs=mu, old_log_probs=pi.detach())
    advantages = reward[:, None].expand(9, 2)
    surrogate = estimator.surrogate(pi, b, advantages).sum(-1)
    return torch.autograd.grad((mu.sum(-1).exp() * surrogate).sum(), leaf)[0]


@pytest.mark.parametrize("seed", range(3))
def test_at_the_proximal_policy_the_rollouts_ratio_is_unbiased(seed: int):
    theta, stale, reward = tables(seed), tables(seed + 10), rewards(seed)
    torch.testing.assert_close(
        expected(sequence_ratio, theta, stale, reward), exact_gradient(theta, reward), rtol=1e-10, atol=1e-12
    )
    biased = expected(token_ratio, theta, stale, reward) - exact_gradient(theta, reward)
    assert biased.abs().max() > 1e-3


@pytest.mark.parametrize("seed", range(3))
@pytest.mark.parametrize("make", [token_truncated, sequence_truncated])
def test_truncations_bias_is_what_listing_says(seed: int, make):
    cap = 1.3
    theta, stale, reward = tables(seed), tables(seed + 10), rewards(seed)
    leaf = theta.clone().requires_grad_()
    pi, mu = log_probs(leaf), log_probs(stale)
    direction = torch.zeros_like(theta)
    for i in range(9):
        token = (pi[i] - mu[i]).detach().exp()
        for t in range(2):
            ratio = token[t] if make is token_truncated else token.prod()
            (score,) = torch.autograd.grad(pi[i, t], leaf, retain_graph=True)
            direction += mu[i].sum().exp() * min(ratio.item(), cap) * reward[i] * score
    torch.testing.assert_close(expected(make(cap), theta, stale, reward), direction, rtol=1e-10, atol=1e-12)


def test_mis_po_by_hand():
    # Row 0: a token out of band, mean in band. Row 1: every token in band, mean out. Row 2: kept.
    old = torch.full((3, 2), -1.0, dtype=T64)
    rho = rows([3.0, 1 / 3.0], [1.1, 1.1], [0.999, 1.0])
    b = batch([[1, 1]] * 3, behaviour_log_probs=old - rho.log(), old_log_probs=old)
    advantages = rows([1.0, 2.0], [1.0, 2.0], [1.0, 2.0])
    # The policy has moved since: survivors weigh one all the same.
    got = gradient(mis_po(), b, old + 1.0, advantages)
    torch.testing.assert_close(got, rows([0.0, 0.0], [0.0, 0.0], [-1 / 6, -2 / 6]))
    only = gradient(mis_po(kept_only=True), b, old, advantages)
    torch.testing.assert_close(only, rows([0.0, 0.0], [0.0, 0.0], [-1 / 2, -2 / 2]))


def test_mis_po_learns_from_a_critic():
    recipe = mis_po().critic
    assert recipe is not None
    assert recipe.updates_per_policy_update == 3
    b = random_batch(5)
    own = mis_po(critic=CriticRecipe(gamma=0.9, bootstrap_truncated=False), lam=0.95)
    wanted = skip_observation_gae(b, gamma=0.9, lam=0.95, bootstrap_truncated=False)
    assert torch.equal(own.advantage(b), wanted)


def test_rejected_rollouts_stay_in_the_groups_baseline():
    # Rewards 1, 0, 0: the first is rejected, and the others' advantages are below a mean of 1/3.
    old = torch.full((3, 1), -1.0, dtype=T64)
    b = bandit(
        [1.0, 0.0, 0.0],
        [0, 0, 0],
        behaviour_log_probs=old - rows([9.0], [1.0], [1.0]).log(),
        old_log_probs=old,
    )
    estimator = sequence_mis()
    advantages = estimator.advantage(b)
    a = (1 / 3) / (math.sqrt(1 / 3) + 1e-6)
    torch.testing.assert_close(gradient(estimator, b, old, advantages), rows([0.0], [a / 3], [a / 3]))
    kept = dataclasses.replace(estimator, kept_only=True)
    torch.testing.assert_close(gradient(kept, b, old, advantages), rows([0.0], [a / 2], [a / 2]))


@pytest.mark.parametrize("make", [sequence_mis, geometric_rs, k3_rs, icepop, kpop, decoupled_ppo])
def test_the_divisor_is_an_option_of_all_that_drop(make):
    assert make().kept_only is False
    assert make(kept_only=True).kept_only is True
    assert make().aggregate is sequence_mean


def alone(version: int, now: int) -> tuple[float, float]:
    """A-3PO's proximal log-prob and its weight, for one token: engine at -2, policy at -1."""
    b = batch([[1]], behaviour_log_probs=rows([-2.0]), policy_versions=torch.tensor([[version]]))
    near = interpolated(rows([-1.0]), b, trainer_version=now)
    assert near.old_log_probs is not None
    return near.old_log_probs.item(), token_ratio(near).item()


def test_a51_the_proximal_policy_lies_on_the_line_and_never_divides_by_zero():
    proximal, weight = alone(3, 8)
    assert proximal == pytest.approx(-1.2)
    assert weight == pytest.approx(math.exp(0.8))
    # Of the current version, one behind it, or ahead of it: the engine's own, and a weight of one.
    for version in (8, 7, 9):
        assert alone(version, 8) == (-2.0, 1.0)


@given(st.integers(0, 20))
def test_a3pos_alpha_is_one_less_than_the_lag_over_the_lag(lag: int):
    wanted = (lag - 1) / lag if lag > 1 else 0.0
    assert alone(100 - lag, 100)[0] == pytest.approx(-2.0 + wanted, abs=1e-12)


def test_a3po_goes_token_by_token_and_reads_no_padding():
    b = batch(
        [[1, 1, 0], [1]],
        behaviour_log_probs=rows([-2.0, -2.0, NAN], [-2.0]),
        policy_versions=torch.tensor([[6, 4, -1], [8, 0, 0]]),
    )
    now = rows([-1.0, -1.0, NAN], [-1.0]).requires_grad_()
    near = interpolated(now, b, trainer_version=8)
    assert near.old_log_probs is not None
    assert not near.old_log_probs.requires_grad
    torch.testing.assert_close(
        near.old_log_probs[:, :2], torch.tensor([[-1.5, -1.25], [-2.0, 0.0]], dtype=T64)
    )
    estimator = decoupled_ppo(aggregate=constant(1))
    # With a negative advantage nothing clips here: w r is pi / mu = e, whatever alpha.
    estimator.loss(now, near, advantages=-unweighted(b), total=torch.tensor(1)).backward()
    assert now.grad is not None
    e = math.e
    torch.testing.assert_close(now.grad, torch.tensor([[e, e, 0.0], [e, 0.0, 0.0]], dtype=T64))


def test_every_composition_here_is_in_the_catalogue():
    assert {*GROUPED, "mis_po"} <= set(by_name())
