import itertools
import math

import numpy as np
import pytest
from scipy import stats

from analysis.statistics.intervals import t_interval
from analysis.statistics.seeds import (
    fisher_power,
    half_width,
    seeds_for_half_width,
    seeds_to_separate,
    seeds_to_separate_shares,
    t_power,
)


@pytest.mark.parametrize(
    ("effect", "power", "seeds"),
    # Paired t, two-sided 5 %: the tables of Cohen 1988 and of G*Power.
    [(0.2, 0.8, 199), (0.5, 0.8, 34), (0.8, 0.8, 15), (0.5, 0.9, 44), (0.2, 0.95, 327)],
)
def test_the_tables_of_the_paired_t_test(effect, power, seeds):
    assert seeds_to_separate(effect, 1.0, power=power) == seeds
    assert seeds_to_separate(-3 * effect, 3.0, power=power) == seeds  # sign and unit do not matter


def test_the_power_is_how_often_the_test_finds_it():
    rng = np.random.default_rng(0)
    found = np.mean(stats.ttest_1samp(rng.normal(1.2, 1, size=(1000, 6)), 0, axis=1).pvalue < 0.05)
    power = t_power(6, 1.2, 1.0)
    assert found == pytest.approx(power, abs=4 * math.sqrt(power * (1 - power) / 1000))


def test_so_many_seeds_have_the_power_and_one_less_has_not():
    for effect in (0.3, 1.0, 2.5):
        n = int(seeds_to_separate(effect, 1.0))
        assert t_power(n, effect, 1.0) >= 0.8 > t_power(n - 1, effect, 1.0)


def test_a_half_width_is_that_of_the_interval():
    values = np.random.default_rng(0).normal(size=7)
    found = t_interval(values)[0]
    assert half_width(values.std(ddof=1), 7) == pytest.approx(found.high - found.estimate)


def test_the_textbooks_half_width_at_four_seeds_needs_four():
    # t(3) = 3.182446: at four seeds half an interval is 1.591 spreads.
    assert seeds_for_half_width(1.0, 1.592) == 4
    assert seeds_for_half_width(1.0, 1.590) == 5
    # For many seeds (1.96 / w)^2 and a little more: 385 in every survey's table, by the normal law.
    assert seeds_for_half_width(0.5, 0.05) == 387


def test_extremes_have_an_answer():
    assert seeds_to_separate(0.0, 1.0) == math.inf
    assert seeds_to_separate(1e-9, 1.0) == math.inf
    assert seeds_to_separate(0.1, 0.0) == seeds_to_separate(1e9, 1e-9) == 2
    assert seeds_for_half_width(0.0, 0.01) == 2
    assert seeds_for_half_width(1.0, 1e-9) == math.inf
    assert seeds_to_separate_shares(0.25, 0.25) == math.inf


@pytest.mark.parametrize("wrong", [(math.nan, 0.1), (-1.0, 0.1), (1.0, 0.0), (1.0, math.nan)])
def test_what_is_no_spread_and_no_width_is_refused(wrong):
    with pytest.raises(ValueError, match="spread"):
        seeds_for_half_width(*wrong)


def test_what_is_no_difference_and_no_share_is_refused():
    with pytest.raises(ValueError, match="difference nan"):
        seeds_to_separate(math.nan, 1.0)
    with pytest.raises(ValueError, match=r"share 1.2 is not"):
        seeds_to_separate_shares(0.5, 1.2)


def power_by_listing(p: float, q: float, n: int) -> float:
    """Of Fisher's test, by listing every outcome."""
    chance = [stats.binom(n, share).pmf(np.arange(n + 1)) for share in (p, q)]
    return sum(
        chance[0][a] * chance[1][b]
        for a, b in itertools.product(range(n + 1), repeat=2)
        if chance[0][a] * chance[1][b] > 1e-9 and stats.fisher_exact([[a, n - a], [b, n - b]]).pvalue < 0.05
    )


@pytest.mark.parametrize(("p", "q"), [(0.0, 0.5), (0.1, 0.8), (0.0, 1.0)])
def test_the_power_of_fishers_test_is_scipys(p, q):
    n = int(seeds_to_separate_shares(p, q))
    for seeds in (n - 1, n):
        assert fisher_power(seeds, p, q) == pytest.approx(power_by_listing(p, q, seeds), abs=1e-6)
    assert fisher_power(n, p, q) >= 0.8 > fisher_power(n - 1, p, q)


def test_four_against_none_of_four_is_the_fewest_that_fishers_test_can_find():
    assert seeds_to_separate_shares(0.0, 1.0) == 4  # p = 2 / 70; three of each: 2 / 20


def test_the_table_of_two_shares():
    # Fleiss, Statistical Methods for Rates and Proportions, table A.3: 5 % and 80 %.
    assert seeds_to_separate_shares(0.05, 0.15) == 160
