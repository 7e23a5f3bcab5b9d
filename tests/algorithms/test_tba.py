"""Trajectory balance by hand, against its published form in plain floats, and at its optimum."""

import dataclasses
import math

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from algorithms.advantage import group_centred
from algorithms.tba import balance_target, tba
from tests.algorithms.make import T64, bandit, batch, rows, terminal
from tests.laws.compositions import random_batch


def gradient(estimator, log_probs, b):
    leaf = log_probs.clone().requires_grad_()
    loss = estimator.loss(leaf, b, advantages=estimator.advantage(b), total=estimator.total(b))
    loss.backward()
    return loss.item(), leaf.grad


def test_by_hand():
    # beta = 1/2, rewards 1 and 0, so R / beta = 2 and 0. To the reference: S = .5 + .1 and -.2.
    # Zhat = ((2 - .6) + (0 + .2)) / 2 = .8; S should be 2 - .8 and 0 - .8, half of it in units of reward.
    action = rows([1, 0, 1], [1, 0, 0], dtype=torch.long).bool()
    moved = rows([0.5, math.nan, 0.1], [-0.2])
    b = batch(
        action,
        rewards=terminal(action, [1.0, 0.0]),
        group_ids=torch.tensor([3, 3]),
        old_log_probs=moved - 1.0,
        reference_log_probs=torch.full((2, 3), -1.0, dtype=T64).where(action, math.nan),
    )
    torch.testing.assert_close(balance_target(b, beta=0.5), rows([0.6, 0.0, 0.6], [-0.4, 0.0, 0.0]))
    # Before the first update pi is pi_old: beta / 2 ((.6 - 1.2)^2 + (-.2 + .8)^2) / 2 = .09.
    # Slopes beta (S - target) / 2.
    loss, slope = gradient(tba(beta=0.5), moved - 1.0, b)
    assert loss == pytest.approx(0.09)
    torch.testing.assert_close(slope, rows([-0.15, 0.0, -0.15], [0.15, 0.0, 0.0]))


@given(st.data())
def test_is_the_published_loss_times_half_beta(data):
    count = data.draw(st.integers(1, 6))
    numbers = st.lists(st.floats(-5, 5), min_size=count, max_size=count)
    reward, log_pi, log_ref = (data.draw(numbers) for _ in range(3))
    groups = data.draw(st.lists(st.integers(0, 2), min_size=count, max_size=count))
    beta = data.draw(st.floats(0.1, 10))
    # Log-probs of one-token rollouts, shifted below zero; the shift cancels.
    present = torch.tensor(log_pi, dtype=T64)[:, None] - 5
    b = bandit(
        reward,
        groups,
        old_log_probs=present,
        reference_log_probs=torch.tensor(log_ref, dtype=T64)[:, None] - 5,
    )
    squares = []
    for i in range(count):
        own = [k for k in range(count) if groups[k] == groups[i]]
        z = sum(reward[k] / beta - (log_pi[k] - log_ref[k]) for k in own) / len(own)
        squares.append((z + log_pi[i] - log_ref[i] - reward[i] / beta) ** 2)
    loss, _ = gradient(tba(beta=beta), present, b)
    assert loss == pytest.approx(beta / 2 * sum(squares) / count, rel=1e-9, abs=1e-9)


@pytest.mark.parametrize("beta", [0.012, 2.0])
def test_where_the_policy_is_the_reference_the_gradient_is_reinforce_with_the_group_mean(beta: float):
    b = random_batch(4)
    reference = b.behaviour_log_probs
    b = dataclasses.replace(b, reference_log_probs=reference, old_log_probs=reference)
    _, slope = gradient(tba(beta=beta), reference, b)
    torch.testing.assert_close(slope, -group_centred(b) / 7)


def test_at_the_tilted_reference_every_rollout_agrees_whoever_sampled():
    """log pi = log ref + R / beta - log Z: no gradient, on any selection of rollouts."""
    beta = 0.5
    reference = torch.tensor([0.5, 0.3, 0.2], dtype=T64).log()
    reward = torch.tensor([1.0, 0.25, -0.5], dtype=T64)
    tilted = (reference + reward / beta).log_softmax(0)
    for drawn in ([0, 1, 2], [2, 2, 1], [0, 0, 2]):
        b = bandit(
            reward[drawn].tolist(),
            [0, 0, 0],
            old_log_probs=tilted[drawn][:, None],
            reference_log_probs=reference[drawn][:, None],
        )
        loss, slope = gradient(tba(beta=beta), tilted[drawn][:, None], b)
        assert loss == pytest.approx(0.0, abs=1e-20)
        torch.testing.assert_close(slope, torch.zeros_like(slope), rtol=0, atol=1e-12)


def test_a_group_of_one_has_no_signal():
    b = bandit([3.0], [0], old_log_probs=rows([-1.0]), reference_log_probs=rows([-2.5]))
    _, slope = gradient(tba(beta=0.25), rows([-1.0]), b)
    assert slope.tolist() == [[0.0]]


def test_what_is_missing_or_out_of_range_is_named():
    with pytest.raises(ValueError, match="beta must be positive"):
        tba(beta=0.0)
    with pytest.raises(ValueError, match="balance_target needs old_log_probs"):
        tba().advantage(bandit([1.0], [0]))
    with pytest.raises(ValueError, match="reference_log_probs"):
        tba().advantage(bandit([1.0], [0], old_log_probs=rows([-1.0])))
