"""When does a series rise, and what is a curve of divergence over lag?"""

import numpy as np
import pytest

from analysis.audit.checks.drift import curve
from analysis.audit.trend import level, running_median, trend


def test_a_line_rises_and_its_ends_are_block_means():
    found = trend(np.arange(80.0), np.arange(80.0), start_up=0.0, fewest=16)
    assert found is not None
    # Eight blocks of ten: the first two are 0 to 19, the last two 60 to 79.
    assert (found.early, found.late, found.rank, found.n, found.where) == (9.5, 69.5, 1.0, 80, (0, 79))


def test_noise_with_memory_has_no_trend():
    for seed in range(50):
        steps = np.random.default_rng(seed).normal(size=400)
        values = np.zeros(400)
        for i in range(1, 400):
            values[i] = 0.5 * values[i - 1] + steps[i]
        found = trend(np.arange(400.0), values, start_up=0.25, fewest=16)
        assert found is not None
        assert abs(found.rank) < 0.8


def test_too_little_is_no_trend():
    assert trend(np.arange(15.0), np.arange(15.0), start_up=0.0, fewest=16) is None


def test_levels_are_not_moved_by_a_spike():
    assert level(np.array([9.0] * 30 + [1.0] * 9 + [1000.0])) == 1.0
    assert running_median(np.array([1.0, 3.0, 2.0, 100.0, 2.0]), 3)[1:].tolist() == [1, 2, 2, 3]


@pytest.mark.parametrize("exponent", [1.0, 1.5, 2.0])
def test_the_curve_gives_back_what_made_it(exponent):
    lags = np.array([0.0, 1, 2, 4, 8, 16])
    found = curve(lags, 0.02 + 0.003 * lags**exponent, np.ones(6))
    assert found is not None
    assert found.engine == pytest.approx(0.02, rel=1e-6)
    assert found.per_lag == pytest.approx(0.003, rel=1e-6)
    assert found.exponent == pytest.approx(exponent)


def test_lags_that_are_too_close_give_no_curve():
    lags = np.array([2.0, 2.1, 2.2, 2.3, 2.4])
    assert curve(lags, lags * 0.01, np.ones(5)) is None
