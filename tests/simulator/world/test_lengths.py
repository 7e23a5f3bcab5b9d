"""Lengths in tokens: the laws are the ones that they are called after."""

import warnings

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from pydantic import ValidationError
from scipy import stats

from simulator.world.lengths import (
    DeepSeekR1,
    Empirical,
    Exponential,
    Fixed,
    LogNormal,
    LogNormalOfLog,
    Pareto,
    clipped_share,
    mean_tokens,
)

UNIFORM = (np.arange(200_000) + 0.5) / 200_000


def test_fixed_is_fixed():
    assert set(Fixed(tokens=7).quantile(UNIFORM)) == {7}


@pytest.mark.parametrize(
    ("law", "distribution"),
    [
        (Exponential(mean_tokens=5000), stats.expon(scale=5000)),
        (
            LogNormal(mean_tokens=5000, sd_tokens=8000),
            stats.lognorm(s=np.sqrt(np.log(1 + 1.6**2)), scale=5000 / np.sqrt(1 + 1.6**2)),
        ),
        (Pareto(shape=3, minimum_tokens=1000), stats.pareto(3, scale=1000)),
    ],
)
def test_laws_have_their_distribution(law, distribution):
    tokens = law.quantile(UNIFORM)
    distance = stats.kstest(tokens + 0.0, distribution.cdf).statistic
    # a law in whole tokens is a staircase: half a token times the density, here at most 3 / 1000
    assert distance < 0.002
    assert tokens.dtype == np.int64


def test_lognormal_by_mean_and_deviation_of_the_length():
    law = LogNormal(mean_tokens=1000, sd_tokens=1500)
    assert mean_tokens(law) == pytest.approx(1000, rel=0.001)
    tokens = law.quantile((np.arange(4_000_000) + 0.5) / 4_000_000)
    assert tokens.std() == pytest.approx(1500, rel=0.01)


def test_lognormal_by_its_logarithm():
    law = LogNormalOfLog(mu=6.0, sigma=1.2)
    assert law.quantile(np.array([0.5]))[0] == round(np.exp(6.0))
    # the same law by its own mean and deviation: E L = exp(mu + sigma^2 / 2), CV^2 = exp(sigma^2) - 1
    mean = np.exp(6.0 + 1.2**2 / 2)
    same = LogNormal(mean_tokens=mean, sd_tokens=mean * np.sqrt(np.expm1(1.2**2)))
    assert same.sigma == pytest.approx(1.2)
    np.testing.assert_array_equal(law.quantile(UNIFORM), same.quantile(UNIFORM))


def test_pareto_is_not_lomax():
    # D09: shape 3, minimum 10: mean 15 and minimum 10; the two confusions give 10.5 and 5
    law = Pareto(shape=3, minimum_tokens=10)
    assert law.quantile(UNIFORM).min() == 10
    assert mean_tokens(law) == pytest.approx(15, rel=0.002)


@pytest.mark.parametrize(("shape", "what"), [(1.0, "mean and variance are"), (2.0, "variance is")])
def test_infinite_moments_are_warned_of(shape, what):
    # D21
    with pytest.warns(UserWarning, match=f"{what} infinite"):
        Pareto(shape=shape, minimum_tokens=1)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        Pareto(shape=shape, minimum_tokens=1, max_tokens=1000)


def test_a_cap_makes_the_mean_finite():
    # D21: Pareto shape 1 *clipped* at 1000: mean 1 + ln 1000 = 7.91 (truncated, it would be 6.91)
    law = Pareto(shape=1, minimum_tokens=1000, max_tokens=1_000_000)
    assert mean_tokens(law) / 1000 == pytest.approx(1 + np.log(1000), rel=0.001)


def test_a_cap_clips_and_says_how_much():
    uncapped, capped = Exponential(mean_tokens=1000), Exponential(mean_tokens=1000, max_tokens=2000)
    tokens = capped.quantile(UNIFORM)
    assert tokens.max() == 2000
    share = clipped_share(uncapped, 2000)
    assert share == pytest.approx(np.exp(-2000.5 / 1000), rel=1e-6)
    assert (uncapped.quantile(UNIFORM) > 2000).mean() == pytest.approx(share, abs=1e-5)
    assert clipped_share(capped, 2000) == 0


@given(
    st.sampled_from(
        [Fixed(tokens=3), Exponential(mean_tokens=0.1), LogNormal(mean_tokens=2, sd_tokens=9), DeepSeekR1()]
    ),
    st.lists(st.floats(0, 1, exclude_max=True), min_size=2, max_size=20),
)
def test_lengths_are_positive_and_rise_with_probability(law, probabilities):
    tokens = law.quantile(np.sort(probabilities))
    assert tokens.min() >= 1
    assert (np.diff(tokens) >= 0).all()


def test_an_empirical_law_repeats_its_values_as_often():
    law = Empirical(values_tokens=np.array([5, 1, 3]), weights=np.array([2.0, 1.0, 1.0]))
    tokens, counts = np.unique(law.quantile(UNIFORM), return_counts=True)
    assert list(tokens) == [1, 3, 5]
    assert list(counts / len(UNIFORM)) == [0.25, 0.25, 0.5]
    assert law.quantile(np.array([0.0, 0.2499, 0.25])).tolist() == [1, 1, 3]


def test_a_value_of_weight_zero_never_occurs():
    law = Empirical(values_tokens=np.array([1, 2, 3]), weights=np.array([0.0, 1.0, 0.0]))
    assert set(law.quantile(np.array([0.0, 0.5, 1 - 2.0**-53]))) == {2}


@pytest.mark.parametrize("values", [[], [0], [[1]], [1.5]])
def test_an_empirical_law_of_other_things_is_refused(values):
    with pytest.raises(ValueError, match="whole numbers"):
        Empirical(values_tokens=np.array(values))


@pytest.mark.parametrize("weights", [[1.0], [1.0, -1.0], [0.0, 0.0], [1.0, np.nan]])
def test_impossible_weights_are_refused(weights):
    with pytest.raises(ValueError, match="weights"):
        Empirical(values_tokens=np.array([1, 2]), weights=np.array(weights))


@pytest.mark.parametrize("bad", [float("nan"), float("inf"), -1.0, 0.0])
def test_impossible_means_are_refused(bad):
    with pytest.raises(ValidationError, match="mean_tokens"):
        Exponential(mean_tokens=bad)
