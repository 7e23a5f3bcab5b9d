"""VCPO: step size by effective sample size, and a baseline that no other one beats."""

import dataclasses
import math

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from torch import Tensor

from algorithms.advantage import group_centred, population_std
from algorithms.stabilise.vcpo import (
    learning_rate_factor,
    least_variance_advantages,
    least_variance_baseline,
)
from tests.algorithms.make import T64, bandit, batch, rows

rollouts = st.lists(
    st.tuples(st.integers(0, 2), st.floats(-5, 5), st.floats(-3, 3), st.floats(0.01, 10)),
    min_size=1,
    max_size=8,
)


def weighted(*log_rho: list[float], mask: list[list[int]] | None = None):
    action = rows(*(mask or [[1] * len(row) for row in log_rho]), dtype=torch.long).bool()
    old = rows(*log_rho) - 1
    return batch(
        action, behaviour_log_probs=torch.full_like(old, -1).where(action, math.nan), old_log_probs=old
    )


def columns(given_rollouts: list[tuple[int, float, float, float]]) -> tuple[Tensor, Tensor, Tensor, Tensor]:
    group, reward, log_weight, norm = zip(*given_rollouts, strict=True)
    return (torch.tensor(reward, dtype=T64), torch.tensor(group), torch.tensor(log_weight, dtype=T64),
            torch.tensor(norm, dtype=T64))  # fmt: skip


def test_the_factor_by_hand():
    """Weights 2 and 1 of whole rollouts: ESS = 9 / 5, of two rollouts .9."""
    b = weighted([math.log(4), -math.log(2)], [0.0])
    assert learning_rate_factor(b) == pytest.approx(math.sqrt(0.9))
    assert learning_rate_factor(b, base=0.95) == pytest.approx(math.sqrt(0.9 / 0.95))
    assert learning_rate_factor(b, base=0.55) == 1.0


def test_the_factor_reads_untruncated_weights_of_action_tokens_only():
    # Truncated at 8, both pairs would weigh alike.
    assert learning_rate_factor(weighted([100.0], [50.0])) == pytest.approx(math.sqrt(0.5))
    assert learning_rate_factor(weighted([800.0], [800.0])) == pytest.approx(1)
    assert learning_rate_factor(weighted([0.0, 500.0], [0.0, 0.0], mask=[[1, 0], [1, 1]])) == 1.0
    assert learning_rate_factor(weighted([0.0], mask=[[0]])) == 0.0


@given(st.lists(st.floats(-200, 200), min_size=1, max_size=9), st.floats(-300, 300), st.floats(0.1, 1))
def test_the_factor_lies_between_one_rollouts_share_and_one(logs, shift: float, base: float):
    factor = learning_rate_factor(weighted(*[[x] for x in logs]), base=base)
    assert math.sqrt(1 / len(logs)) * (1 - 1e-9) <= factor <= 1
    assert factor == pytest.approx(learning_rate_factor(weighted(*[[x + shift] for x in logs]), base=base))


def test_the_baseline_by_hand():
    """w^2 |g|^2 = 4 * 1, 1 * 2 and, in the other group, 3."""
    found = least_variance_baseline(
        torch.tensor([1.0, 0.0, 5.0], dtype=T64),
        torch.tensor([7, 7, 3]),
        torch.tensor([2.0, 1.0, 1.0], dtype=T64).log(),
        torch.tensor([1.0, 2.0, 3.0], dtype=T64),
    )
    torch.testing.assert_close(found, torch.tensor([2 / 3, 2 / 3, 5.0], dtype=T64))


@given(rollouts, st.floats(-2, 2))
def test_no_other_baseline_has_a_smaller_second_moment(given_rollouts, other: float):
    rewards, group, log_weights, norms = columns(given_rollouts)
    found = least_variance_baseline(rewards, group, log_weights, norms)

    def moment(baseline: Tensor) -> Tensor:
        terms = (2 * log_weights).exp() * norms * (rewards - baseline).square()
        return torch.zeros(3, dtype=T64).index_add(0, group, terms)

    assert (moment(found) <= moment(found + other) + 1e-9).all()
    # And numerically: its derivative vanishes in every group.
    leaf = found.clone().requires_grad_()
    slope = torch.autograd.grad(moment(leaf).sum(), leaf)[0]
    scale = ((2 * log_weights).exp() * norms).sum() * 10
    assert (torch.zeros(3, dtype=T64).index_add(0, group, slope).abs() <= 1e-12 * scale).all()


@given(rollouts)
def test_the_baseline_lies_among_its_groups_rewards(given_rollouts):
    rewards, group, log_weights, norms = columns(given_rollouts)
    found = least_variance_baseline(rewards, group, log_weights, norms)
    for g in group.unique():
        own = rewards[group == g]
        assert (found[group == g] >= own.min() - 1e-12).all()
        assert (found[group == g] <= own.max() + 1e-12).all()


@pytest.mark.parametrize("seed", range(4))
def test_listing_every_response_it_has_the_least_variance_of_all_constants(seed: int):
    """Softmax over six responses, exact weights pi / mu: the covariance's trace by listing them."""
    g = torch.Generator().manual_seed(seed)
    theta = torch.randn(6, generator=g, dtype=T64)
    pi, mu = theta.softmax(0), (theta + torch.randn(6, generator=g, dtype=T64)).softmax(0)
    rewards = torch.rand(6, generator=g, dtype=T64)
    scores = torch.eye(6, dtype=T64) - pi
    weights = pi / mu

    def variance(baseline: float) -> float:
        terms = (weights * (rewards - baseline))[:, None] * scores
        mean = (mu[:, None] * terms).sum(0)
        return float((mu[:, None] * (terms - mean).square()).sum())

    # Sampled from mu, a response comes in mu of the group's places: its probability joins the norm.
    b = least_variance_baseline(
        rewards, torch.zeros(6, dtype=torch.long), weights.log(), mu * scores.square().sum(-1)
    )[0].item()
    grid = [variance(b + step) for step in torch.linspace(-1, 1, 201).tolist()]
    assert min(grid) == pytest.approx(variance(b), rel=1e-12)
    assert grid[99] > variance(b) < grid[101]
    # The usual baselines are not it.
    assert variance(b) < min(variance(float(mu @ rewards)), variance(float(pi @ rewards)), variance(0.0))
    # Nor is the gradient it gives another one: a constant baseline is free where weights are exact.
    gradients = [((mu * weights * (rewards - c))[:, None] * scores).sum(0) for c in (0.0, b)]
    torch.testing.assert_close(gradients[0], gradients[1])


def test_equal_norms_and_weights_give_the_groups_mean_and_its_deviation():
    b = bandit([1.0, 0.0, 0.0, 1.0, 3.0], [2, 2, 2, 5, 5])
    found = least_variance_advantages(b, torch.zeros(5, dtype=T64), torch.ones(5, dtype=T64))
    torch.testing.assert_close(found, group_centred(b, scale=population_std))


def test_advantages_by_hand():
    """b = 2/3 as above, population deviation of (1, 0) one half."""
    b = bandit([1.0, 0.0], [0, 0])
    found = least_variance_advantages(
        b, torch.tensor([2.0, 1.0], dtype=T64).log(), torch.tensor([1.0, 2.0], dtype=T64), eps=0.0
    )
    torch.testing.assert_close(found, torch.tensor([[2 / 3], [-4 / 3]], dtype=T64))


def test_ordinary_extremes():
    """Weights of e^100, groups of one or of equal rewards, gradients that vanish, and NaN in the padding."""
    rewards = torch.tensor([1.0, 0.0], dtype=T64)
    one_group = torch.tensor([0, 0])
    heavy = least_variance_baseline(
        rewards, one_group, torch.tensor([400.0, 399.0], dtype=T64), torch.ones(2, dtype=T64)
    )
    torch.testing.assert_close(heavy, torch.full((2,), 1 / (1 + math.exp(-2)), dtype=T64))
    flat = least_variance_baseline(rewards, one_group, torch.zeros(2, dtype=T64), torch.zeros(2, dtype=T64))
    torch.testing.assert_close(flat, torch.full((2,), 0.5, dtype=T64))
    b = bandit([0.1, 0.1, 0.1, 7.0], [0, 0, 0, 1])
    spread = torch.tensor([1.0, 2.0, 3.0, 4.0], dtype=T64)
    assert (least_variance_advantages(b, spread, spread) == 0).all()
    ragged = batch([[1, 1], [1]], rewards=rows([1.0, 2.0], [0.0]), group_ids=one_group)
    found = least_variance_advantages(ragged, torch.zeros(2, dtype=T64), torch.ones(2, dtype=T64), eps=0.0)
    torch.testing.assert_close(found, torch.tensor([[1.0, 1.0], [-1.0, 0.0]], dtype=T64))


def test_what_cannot_be_is_refused():
    b = weighted([0.0])
    with pytest.raises(ValueError, match=r"base must lie in \(0, 1\], got 0"):
        learning_rate_factor(b, base=0.0)
    with pytest.raises(ValueError, match="old_log_probs, got None"):
        learning_rate_factor(bandit([1.0], [0]))
    with pytest.raises(ValueError, match="must not be negative, got -1"):
        least_variance_baseline(
            torch.ones(1), torch.zeros(1, dtype=torch.long), torch.zeros(1), -torch.ones(1)
        )


def test_a_rollout_without_an_action_is_nobodys_peer():
    whole = bandit([1.0, 0.0, 5.0], [0, 0, 0])
    idle = dataclasses.replace(whole, action_mask=torch.tensor([[True], [True], [False]]))
    given_norms = torch.tensor([1.0, 2.0, 3.0], dtype=T64)
    got = least_variance_advantages(idle, torch.zeros(3, dtype=T64), given_norms)
    two = least_variance_advantages(whole.rows(slice(0, 2)), torch.zeros(2, dtype=T64), given_norms[:2])
    assert got.tolist() == [*two.tolist(), [0.0]]
