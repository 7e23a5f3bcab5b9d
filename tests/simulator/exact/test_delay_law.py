"""Late ascent on a bandit against the closed form, a gradient by autograd, and its own trajectories."""

import dataclasses
import itertools

import numpy as np
import pytest
import torch
from torch import Tensor

from algorithms.advantage import group_centred
from algorithms.aggregate import constant
from algorithms.catalogue import by_name
from algorithms.estimator import Estimator
from algorithms.ratio import per_sequence_product, per_token
from algorithms.stabilise.staleness_rule import critical_rate
from algorithms.trust import importance_weighted, score
from simulator.exact.delay_law import SoftBandit, largest_root, late_ascent, measured_critical_rate
from simulator.exact.world import World
from simulator.validation import delays

T64 = torch.float64
TAU = 0.5
BANDIT = SoftBandit(rewards=torch.tensor([1.0, 0.6, 0.3, 0.0], dtype=T64), entropy_weight=TAU)
PLAIN = Estimator(advantage=group_centred, log_ratio=per_token, trust=score, aggregate=constant(1))
WEIGHTED = dataclasses.replace(PLAIN, trust=importance_weighted)
RATE = {lag: critical_rate(lag, curvature=BANDIT.curvature()) for lag in (0, 1, 4, 16)}


def policy(seed: int) -> World:
    logits = torch.from_numpy(np.random.default_rng(seed).normal(size=(1, 4)))
    return BANDIT.optimum().at(logits)


def true_gradient(learner: World) -> Tensor:
    """Of J = E[r] + tau H, by autograd: no estimator's."""
    logits = learner.logits.clone().requires_grad_()
    log_pi = logits[0].log_softmax(0)
    objective = log_pi.exp() @ (BANDIT.rewards - TAU * log_pi)
    return torch.autograd.grad(objective, logits)[0]


@pytest.mark.parametrize("seed", range(3))
def test_the_plain_score_has_the_closed_form_of_a_late_bandit(seed: int):
    learner, behaviour = policy(seed), policy(100 + seed)
    phi = behaviour.probabilities()
    worth = BANDIT.rewards - TAU * phi.log()
    # phi A - pi (phi . A), and a centred advantage leaves the first term alone: no learner in it.
    by_hand = phi * (worth - phi @ worth)
    got = BANDIT.entropy_as_sampled(PLAIN)(learner, behaviour)[0]
    torch.testing.assert_close(got, by_hand, rtol=1e-12, atol=1e-14)


@pytest.mark.parametrize("seed", range(3))
def test_fresh_the_three_are_the_true_gradient(seed: int):
    learner = policy(seed)
    for ascent in (
        BANDIT.entropy_as_sampled(PLAIN),
        BANDIT.entropy_as_sampled(WEIGHTED),
        BANDIT.entropy_of_the_learner(WEIGHTED),
    ):
        torch.testing.assert_close(ascent(learner, learner), true_gradient(learner), rtol=1e-12, atol=1e-14)


@pytest.mark.parametrize("ratio", [per_token, per_sequence_product])
@pytest.mark.parametrize("seed", range(5))
def test_with_the_ratio_the_gradient_is_true_at_any_lag(ratio, seed: int):
    """However far the behaviour is: nothing of it is left."""
    learner, behaviour = policy(seed), policy(100 + seed)
    far = behaviour.at(2 * behaviour.logits)
    ascent = BANDIT.entropy_of_the_learner(dataclasses.replace(WEIGHTED, log_ratio=ratio))
    for late in (behaviour, far):
        assert float((ascent(learner, late) - true_gradient(learner)).abs().max()) < 1e-12


@pytest.mark.parametrize("seed", range(3))
def test_a_ratio_does_not_renew_an_entropy_that_was_sampled(seed: int):
    r"""What is missing is :math:`\tau \nabla_\theta KL(\pi \| \varphi)`: the reward still names phi."""
    learner, behaviour = policy(seed), policy(100 + seed)
    logits = learner.logits.clone().requires_grad_()
    log_pi = logits[0].log_softmax(0)
    divergence = log_pi.exp() @ (log_pi - behaviour.log_probs()[:, 0])
    gap = TAU * torch.autograd.grad(divergence, logits)[0]
    got = BANDIT.entropy_as_sampled(WEIGHTED)(learner, behaviour)
    torch.testing.assert_close(got, true_gradient(learner) + gap, rtol=1e-12, atol=1e-14)
    assert gap.norm() > 1e-2


def test_the_law_holds_and_the_ratio_lifts_it_where_the_entropy_is_fresh():
    rows = list(delays.staleness_rule())
    assert len(rows) == 12
    assert all(row.holds for row in rows), rows
    # One per cent is asked; what is missed is the bisection's and the difference quotient's.
    assert max(abs(row.error) for row in rows) < 1e-6


@pytest.mark.parametrize("entropy_weight", [0.2, 1.0, 3.0])
def test_the_law_holds_in_other_bandits(entropy_weight: float):
    rewards = torch.from_numpy(np.random.default_rng(7).uniform(size=6))
    bandit = SoftBandit(rewards=rewards, entropy_weight=entropy_weight)
    for lag in (0, 3, 9):
        got = measured_critical_rate(bandit.entropy_as_sampled(PLAIN), bandit.optimum(), lag_updates=lag)
        assert got == pytest.approx(critical_rate(lag, curvature=bandit.curvature()), rel=1e-6)


def test_a_mean_over_tokens_changes_nothing_for_one_token():
    """SAO and GRPO with a mask, as they ship: near the optimum no ratio leaves the band."""
    for name in ("sao", "grpo_dis"):
        ascent = BANDIT.entropy_as_sampled(by_name()[name]())
        got = measured_critical_rate(ascent, BANDIT.optimum(), lag_updates=4)
        assert got == pytest.approx(RATE[4], rel=1e-6)


def distances(ascent, rate: float, lag: int, updates: int) -> list[float]:
    best = BANDIT.optimum()
    start = best.at(best.logits + 1e-4 * torch.tensor([[1.0, -2.0, 3.0, 1.0]], dtype=T64))
    path = late_ascent(ascent, start, learning_rate=rate, lag_updates=lag)
    return [
        float((world.probabilities() - best.probabilities()).abs().max())
        for world in itertools.islice(path, updates)
    ]


@pytest.mark.parametrize("lag", [0, 1, 4])
def test_trajectories_settle_below_the_rate_and_leave_above_it(lag: int):
    """The recursion itself, not its linear part: five per cent to either side."""
    ascent = BANDIT.entropy_as_sampled(PLAIN)
    updates, window = 60 * (lag + 1), 4 * (lag + 1)
    for factor, growing in ((0.95, False), (1.05, True)):
        far = distances(ascent, factor * RATE[lag], lag, updates)
        assert (max(far[-window:]) > 2 * max(far[window : 2 * window])) is growing
        assert (max(far[-window:]) < 0.5 * max(far[window : 2 * window])) is not growing


def test_with_the_ratio_a_trajectory_is_that_of_fresh_data():
    """At sixteen times the rate that lag 16 allows without it."""
    late, fresh = (
        distances(BANDIT.entropy_of_the_learner(WEIGHTED), 16 * RATE[16], lag, 100) for lag in (16, 0)
    )
    np.testing.assert_allclose(late, fresh, rtol=1e-6, atol=1e-12)
    assert late[-1] < 1e-8


def test_a_lag_slows_the_slowest_mode_on_both_sides_of_the_rate():
    modulus = largest_root(BANDIT.entropy_as_sampled(PLAIN), BANDIT.optimum(), lag_updates=4)
    assert modulus(0.99 * RATE[4]) < 1 < modulus(1.01 * RATE[4])
    assert modulus(0.0) == pytest.approx(1)


def test_descent_settles_nowhere_and_impossible_bandits_are_refused():
    up = BANDIT.entropy_as_sampled(PLAIN)
    with pytest.raises(ValueError, match=r"leaves it, or never moves, at the learning rate 0\.001"):
        measured_critical_rate(lambda pi, phi: -up(pi, phi), BANDIT.optimum(), lag_updates=1)
    with pytest.raises(ValueError, match="two actions or more"):
        SoftBandit(rewards=torch.ones(1, dtype=T64), entropy_weight=1.0)
    with pytest.raises(ValueError, match="entropy_weight must be positive, got 0"):
        dataclasses.replace(BANDIT, entropy_weight=0.0)
