import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy import stats

from analysis.statistics.improvement import probability_of_improvement as improvement
from analysis.statistics.intervals import wilson

SCORES = st.lists(st.integers(0, 5).map(float), min_size=1, max_size=6)


def test_pairs_are_counted_and_a_tie_is_one_half():
    # 1 > 0; 1 = 1; 3 > 0; 3 > 1: three and a half of four.
    assert improvement([[1.0, 3.0]], [[0.0, 1.0]]).estimate == 3.5 / 4


@given(x=SCORES, y=SCORES)
def test_it_is_mann_and_whitneys_statistic(x, y):
    with np.errstate(invalid="ignore"):
        reference = stats.mannwhitneyu(x, y, method="asymptotic").statistic
    assert improvement([x], [y]).estimate == pytest.approx(reference / (len(x) * len(y)))


def test_one_run_each_is_wilsons_interval_of_one():
    found, reference = improvement([[1.0]], [[0.0]]), wilson(1, 1)
    assert (found.low, found.high) == pytest.approx((reference.low, reference.high), abs=1e-6)


def test_the_bounds_are_where_the_score_test_just_does_not_reject():
    # Seven and eight runs, Hanley and McNeil's variance with (m + n) / 2 for both sizes, at the bound.
    rng = np.random.default_rng(0)
    found = improvement([rng.normal(0.7, 1, 7)], [rng.normal(size=8)])
    for theta in (found.low, found.high):
        q1, q2 = theta / (2 - theta), 2 * theta**2 / (1 + theta)
        variance = (theta * (1 - theta) + 6.5 * (q1 + q2 - 2 * theta**2)) / 56
        assert abs(theta - found.estimate) / np.sqrt(variance) == pytest.approx(1.959964, abs=1e-5)


@given(x=SCORES, y=SCORES)
def test_turned_round_it_is_one_minus(x, y):
    one, other = improvement([x], [y]), improvement([y], [x])
    assert one.estimate == pytest.approx(1 - other.estimate)
    assert (one.low, one.high) == pytest.approx((1 - other.high, 1 - other.low), abs=1e-6)
    assert 0 <= one.low <= one.estimate <= one.high <= 1


def test_full_separation_of_few_runs_is_not_certainty():
    found = improvement([[3.0, 4, 5, 6]], [[0.0, 1, 2, 2.5]])
    assert found.estimate == found.high == 1.0
    assert 0.4 < found.low < 0.7
    many = improvement([np.arange(40.0) + 100], [np.arange(40.0)])
    assert many.low > 0.9


def test_runs_that_are_all_equal_tell_nothing():
    found = improvement([[0.5] * 3], [[0.5] * 3])
    assert found.estimate == 0.5
    assert found.low < 0.2
    assert found.high > 0.8


def test_tasks_are_compared_apart_and_averaged():
    # Better by a hair in each of two tasks, although the tasks' scores overlap not at all.
    found = improvement([[0.2, 0.21], [0.9, 0.91]], [[0.1, 0.11], [0.8, 0.81]])
    assert found.estimate == 1.0
    mixed = improvement([[1.0, 1], [0.0, 0]], [[0.0, 0], [1.0, 1]])
    assert mixed.estimate == 0.5
    single = improvement([[1.0, 1]], [[0.0, 0]])
    assert mixed.high - 0.5 == pytest.approx((1 - single.low) / 2)


@pytest.mark.parametrize("bad", [([], []), ([[]], [[1.0]])])
def test_nothing_to_compare_is_refused(bad):
    with pytest.raises(ValueError, match="without runs"):
        improvement(*bad)
    with pytest.raises(ValueError, match="not finite"):
        improvement([[np.nan]], [[1.0]])


@pytest.mark.parametrize(("n", "shift", "strata"), [(4, 0.0, 1), (4, 1.5, 1), (10, 0.5, 1), (5, 1.0, 3)])
def test_it_is_covered_at_few_seeds_and_separate_tasks(n, shift, strata):
    rng = np.random.default_rng(0)
    truth = stats.norm.cdf(shift / np.sqrt(2))
    held = 0
    for _ in range(200):
        x, y = rng.normal(size=(2, strata, n))
        found = improvement(list(x + shift), list(y))
        held += found.low <= truth <= found.high
    assert held >= stats.binom.ppf(0.001, 200, 0.95)
