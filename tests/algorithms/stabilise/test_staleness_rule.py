"""Learning rates that a lag allows: against recursions, companion matrices and a bandit that is late."""

import math

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from algorithms.stabilise.staleness_rule import (
    critical_rate,
    inverse_lag_rate,
    monotone_rate,
    two_constraint_rate,
)
from tests.algorithms.make import T64

PUBLISHED = {0: 2.0, 1: 1.0, 2: 0.618, 4: 0.347, 8: 0.1845, 16: 0.0952, 32: 0.0483}
BANDIT = {0: 11.061, 1: 5.533, 4: 1.922, 16: 0.528}
"""Found by bisection in a simulation, to the third decimal."""


def simulated(rate: float, lag: int, updates: int) -> list[float]:
    """x' = x - rate * x of `lag` updates ago, from one."""
    x = [1.0] * (lag + 1)
    for _ in range(updates):
        x.append(x[-1] - rate * x[-1 - lag])
    return x


@pytest.mark.parametrize(("lag", "rate"), PUBLISHED.items())
def test_published_critical_rates(lag: int, rate: float):
    # Half a unit in the last digit that is printed.
    assert critical_rate(lag) == pytest.approx(rate, abs=5e-4 if rate > 0.1 else 5e-5)


@pytest.mark.parametrize("lag", [0, 1, 4, 16])
def test_the_recursion_converges_below_and_diverges_above(lag: int):
    def last(rate: float) -> float:
        return max(map(abs, simulated(rate, lag, 600 * (lag + 1))[-2 * lag - 2 :]))

    assert last(0.98 * critical_rate(lag)) < 0.01
    assert last(1.02 * critical_rate(lag)) > 10


@given(st.integers(0, 40), st.floats(0.1, 10))
def test_at_the_critical_rate_the_largest_root_has_modulus_one(lag: int, curvature: float):
    def modulus(rate: float) -> float:
        # z^(S+1) = z^S - rate * curvature
        coefficients = np.zeros(lag + 2)
        coefficients[:2] = 1, -1
        coefficients[-1] += rate * curvature
        return float(np.abs(np.roots(coefficients)).max())

    rate = critical_rate(lag, curvature=curvature)
    assert modulus(rate) == pytest.approx(1, abs=1e-9)
    assert modulus(0.99 * rate) < 1 < modulus(1.01 * rate)


@pytest.mark.parametrize("lag", [0, 1, 4, 16])
def test_below_the_monotone_rate_nothing_overshoots(lag: int):
    updates = 60 * (lag + 1)
    assert min(simulated(0.999 * monotone_rate(lag), lag, updates)) >= 0
    assert min(simulated(1.2 * monotone_rate(lag), lag, updates)) < 0


def test_monotone_rates_by_hand_and_in_the_limit():
    assert [monotone_rate(s) for s in (0, 1, 2)] == pytest.approx([1, 1 / 4, 4 / 27])
    assert monotone_rate(1000) * 1000 == pytest.approx(1 / math.e, rel=1e-3)
    assert critical_rate(1000) * 2001 == pytest.approx(math.pi, rel=1e-6)
    assert all(monotone_rate(s) < critical_rate(s) for s in range(200))


@pytest.mark.parametrize(("lag", "published"), BANDIT.items())
def test_a_bandit_with_an_entropy_reward_has_the_critical_rate_of_its_curvature(lag: int, published: float):
    """theta += eta E_phi[A_phi grad log pi_theta] with phi `lag` updates old and tau = .5."""
    rewards, tau = torch.tensor([1.0, 0.6, 0.3, 0.0], dtype=T64), 0.5
    best = (rewards / tau).softmax(0)
    largest = torch.linalg.eigvalsh(best.diag() - best.outer(best))[-1].item()
    rate = critical_rate(lag, curvature=tau * largest)
    assert rate == pytest.approx(published, rel=4e-3)

    def distance(eta: float) -> float:
        start = best.log() + torch.tensor([1e-4, -2e-4, 3e-4, 1e-4], dtype=T64)
        thetas = [start] * (lag + 1)
        for _ in range(300 * (lag + 1)):
            log_phi = thetas[-1 - lag].log_softmax(0)
            worth = rewards - tau * log_phi
            phi, pi = log_phi.exp(), thetas[-1].softmax(0)
            advantage = worth - phi @ worth
            thetas.append(thetas[-1] + eta * (phi * advantage - pi * (phi @ advantage)))
        return max(float((t.softmax(0) - best).abs().max()) for t in thetas[-2 * lag - 2 :])

    assert distance(0.97 * rate) < 1e-5
    assert distance(1.03 * rate) > 1e-2


def test_twice_the_lag_is_half_the_rate_and_no_lag_is_no_limit():
    assert inverse_lag_rate(16) == pytest.approx(1e-7)
    assert inverse_lag_rate(8) / inverse_lag_rate(32) == pytest.approx(4)
    assert inverse_lag_rate(0) == math.inf


def test_the_tighter_constraint_binds():
    radii = {"update_norm": 2.0, "batch_radius": 1.0, "critical_radius": 100.0}
    assert two_constraint_rate(10, 400, **radii) == pytest.approx(1 / 20)
    # Short lags against a long run: the horizon decides, and the lag plays no part.
    assert two_constraint_rate(1, 400, **radii) == two_constraint_rate(2, 400, **radii) == 1 / 8


def test_impossible_numbers_are_refused():
    for rate in (critical_rate, monotone_rate, inverse_lag_rate):
        with pytest.raises(ValueError, match="must not be negative, got -1"):
            rate(-1)
    for rate in (critical_rate, monotone_rate):
        with pytest.raises(ValueError, match="curvature must be positive, got 0"):
            rate(1, curvature=0.0)
    with pytest.raises(ValueError, match="batch_radius must be positive, got 0"):
        two_constraint_rate(1, 1, update_norm=1.0, batch_radius=0.0, critical_radius=1.0)
