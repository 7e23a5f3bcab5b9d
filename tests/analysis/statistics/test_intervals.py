import math

import numpy as np
import pytest
from scipy import stats

from analysis.statistics.intervals import band, bootstrap_interval, iqm, share_difference, t_interval, wilson


def test_the_bootstrap_of_a_mean_of_two_is_known_exactly():
    # Resamples of [0, 1] have the means 0, 1/2, 1 with chances 1/4, 1/2, 1/4: 95 % spans all of it.
    interval = bootstrap_interval([0.0, 1.0], rng=np.random.default_rng(0))
    assert (interval.estimate, interval.low, interval.high, interval.n) == (0.5, 0.0, 1.0, 2)
    narrow = bootstrap_interval([0.0, 1.0], rng=np.random.default_rng(0), confidence=0.4)
    assert (narrow.low, narrow.high) == (0.5, 0.5)


def test_the_bootstrap_agrees_with_scipys():
    values = np.random.default_rng(3).normal(size=12)
    ours = bootstrap_interval(values, rng=np.random.default_rng(0), resamples=20_000)
    theirs = stats.bootstrap(
        (values,), np.mean, method="percentile", n_resamples=20_000, rng=np.random.default_rng(1)
    ).confidence_interval
    # A bootstrap quantile of 20,000 draws is known to about 0.005 of the spread.
    assert (ours.low, ours.high) == pytest.approx((theirs.low, theirs.high), abs=0.03 * values.std())


def test_the_same_generator_gives_the_same_interval():
    values = [0.2, 0.4, 0.9]
    one, two = (bootstrap_interval(values, rng=np.random.default_rng(5)) for _ in range(2))
    assert one == two


def test_one_seed_has_an_estimate_and_no_interval():
    interval = bootstrap_interval([0.7], rng=np.random.default_rng(0))
    assert interval.estimate == 0.7
    assert math.isnan(interval.low)
    assert math.isnan(t_interval([0.7])[0].high)


def test_a_value_that_is_not_finite_is_refused_not_left_out():
    with pytest.raises(ValueError, match="1 of 3 values are not finite"):
        bootstrap_interval([0.1, math.nan, 0.3], rng=np.random.default_rng(0))


def test_iqm_is_the_mean_of_the_middle_half():
    assert iqm(np.array([0.0, 1, 2, 3, 4, 5, 6, 100])) == 3.5  # of 2, 3, 4, 5
    assert iqm(np.array([1.0, 2, 6])) == 3.0  # too few to trim


def test_the_t_interval_is_the_textbooks():
    # Four values from a published table (case E06): sd .000722 with n - 1, t(3) = 3.182446.
    interval, _ = t_interval([0.001479, 0.001806, 0.001926, 0.003130])
    assert interval.high - interval.estimate == pytest.approx(3.182446 * 0.000722 / 2, rel=1e-3)


def test_the_t_interval_keeps_its_level_at_five_seeds_where_the_bootstrap_does_not():
    rng = np.random.default_rng(0)
    samples = rng.normal(size=(600, 5))
    covered_t = np.mean([i.low <= 0 <= i.high for i in (t_interval(s)[0] for s in samples)])
    # Standard error of a share near .95 over 600 is .009: four of them.
    assert covered_t == pytest.approx(0.95, abs=0.036)
    drawn = samples[:, rng.integers(5, size=(999, 5))].mean(axis=-1)
    low, high = np.quantile(drawn, [0.025, 0.975], axis=1)
    assert np.mean((low <= 0) & (high >= 0)) < 0.90


def test_equal_differences_have_no_spread_and_no_warning():
    interval, p = t_interval([0.2, 0.2, 0.2])
    assert (interval.low, interval.high) == pytest.approx((0.2, 0.2))
    assert p < 1e-6
    assert t_interval([0.0, 0.0])[1] == 1.0


def test_wilson_at_none_of_ten():
    # Closed form at k = 0: z^2 / (n + z^2).
    z2 = stats.norm.ppf(0.975) ** 2
    interval = wilson(0, 10)
    assert (interval.low, interval.high) == pytest.approx((0.0, z2 / (10 + z2)))


def test_newcombes_own_example():
    # Newcombe 1998, table II, row (a): 56/70 - 48/80, method 10: 0.0524 to 0.3339.
    interval = share_difference(56, 70, 48, 80)
    assert (interval.estimate, interval.low, interval.high) == pytest.approx((0.2, 0.0524, 0.3339), abs=5e-5)


def test_a_band_leaves_out_what_is_missing_and_needs_two_runs():
    runs = np.array([[1.0, 1.0, np.nan], [3.0, np.nan, np.nan], [5.0, 1.0, 2.0]])
    low, high = band(runs, rng=np.random.default_rng(0))
    assert low[0] == 1.0  # all three draws of the lowest run: chance 1/27 > 2.5 %
    assert high[0] == 5.0
    assert (low[1], high[1]) == (1.0, 1.0)
    assert np.isnan([low[2], high[2]]).all()
