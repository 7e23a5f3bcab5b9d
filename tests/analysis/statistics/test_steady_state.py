import math

import numpy as np
import pytest
from scipy import signal, stats

from analysis.statistics.steady_state import batch_means, lag_one_correlation, mser5, steady_state


def autoregressive(rng: np.random.Generator, n: int, phi: float) -> np.ndarray:
    """x_t = phi x_(t-1) + e_t, from 0: its long-run mean is 0."""
    return signal.lfilter([1.0], [1.0, -phi], rng.normal(size=n))


def waits(rng: np.random.Generator, n: int, load: float) -> np.ndarray:
    """Waiting times of M/M/1 with service rate 1 that starts empty, by Lindley's recursion."""
    steps = rng.exponential(1, n - 1) - rng.exponential(1 / load, n - 1)
    walk = np.concatenate([[0.0], np.cumsum(steps)])
    return walk - np.minimum.accumulate(walk)


def test_the_warm_up_by_hand():
    # Four groups of five: 9, 1, 1, 1. Without the first the rest has no error.
    values = np.repeat([9.0, 1, 1, 1], 5)
    assert mser5(values) == 5
    assert mser5(np.ones(40)) == 0
    assert mser5(np.repeat([1.0, 1, 1, 9], 5)) == 0  # what comes late is no warm-up


def test_the_warm_up_is_where_the_direct_formula_puts_it():
    rng = np.random.default_rng(0)
    values = autoregressive(rng, 203, 0.7) + 20 * np.exp(-np.arange(203) / 15)
    means = values[:200].reshape(40, 5).mean(axis=1)
    error = [((means[d:] - means[d:].mean()) ** 2).sum() / (40 - d) ** 2 for d in range(21)]
    assert mser5(values) == 5 * int(np.argmin(error)) > 0


def test_batches_and_their_likeness_by_hand():
    assert batch_means(np.array([99.0, 1, 3, 5, 7]), 2).tolist() == [
        2.0,
        6.0,
    ]  # the odd one is left out first
    assert lag_one_correlation(np.array([1.0, -1, 1, -1])) == -0.75
    assert lag_one_correlation(np.ones(5)) == 0.0


def test_independent_values_have_the_batches_t_interval():
    values = np.random.default_rng(0).normal(5, 1, 2000)
    found = steady_state(values)
    means = values[found.warm_up :].reshape(20, -1).mean(axis=1)
    reference = stats.ttest_1samp(means, 0).confidence_interval(0.95)
    assert (found.interval.low, found.interval.high) == pytest.approx((reference.low, reference.high))
    assert found.interval.n == 20


@pytest.mark.parametrize(
    ("series", "truth"),
    [
        (lambda rng: autoregressive(rng, 3000, 0.9), 0.0),
        (lambda rng: autoregressive(rng, 3000, 0.9) + 50 * 0.97 ** np.arange(3000), 0.0),
        (lambda rng: waits(rng, 10_000, 0.5), 1.0),  # rho / (mu - lambda)
    ],
    ids=["AR(1)", "AR(1) with a warm-up", "M/M/1"],
)
def test_the_interval_covers_the_long_run_mean(series, truth):
    rng = np.random.default_rng(0)
    found = [steady_state(series(rng)).interval for _ in range(200)]
    held = sum(i.low <= truth <= i.high for i in found)
    assert held >= stats.binom.ppf(0.001, 200, 0.95) - 4  # skew and warm-up cost up to two in a hundred


def test_without_removal_the_warm_up_would_spoil_it_and_without_batches_the_likeness():
    rng = np.random.default_rng(0)
    decay = 50 * 0.97 ** np.arange(3000)
    assert decay.mean() > 0.5
    assert abs(steady_state(autoregressive(rng, 3000, 0.9) + decay).interval.estimate) < 0.5
    naive = 0
    for _ in range(100):
        values = autoregressive(rng, 3000, 0.9)
        naive += abs(values.mean()) < 1.96 * values.std() / math.sqrt(3000)
    assert naive < 60


def test_a_run_that_is_too_short_gets_no_interval_and_a_reason():
    drifting = steady_state(np.cumsum(np.random.default_rng(0).normal(size=500)))
    assert math.isnan(drifting.interval.low)
    assert "too short" in drifting.note
    few = steady_state(np.ones(99))
    assert few.interval.estimate == 1.0
    assert few.note == "99 values; 100 are needed"
    assert math.isnan(steady_state([]).interval.estimate)
    with pytest.raises(ValueError, match="not finite"):
        steady_state([1.0, math.nan])


def test_a_constant_is_known_for_certain():
    found = steady_state(np.full(200, 0.25))
    assert (found.interval.low, found.interval.high, found.warm_up) == (0.25, 0.25, 0)
