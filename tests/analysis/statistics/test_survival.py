import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from analysis.statistics.survival import kaplan_meier, logrank_p, median_time


def test_kaplan_meier_by_hand():
    # Five seeds: events at 2 and 4, censored at 3, 5, 5: 4/5, then 4/5 x 2/3.
    table = kaplan_meier(np.array([2.0, 3, 4, 5, 5]), np.array([True, False, True, False, False]))
    at = dict(zip(table["time"], table["surviving"], strict=True))
    assert at[0.0] == 1.0
    assert at[2.0] == pytest.approx(0.8)
    assert at[4.0] == pytest.approx(0.8 * 2 / 3)
    assert dict(zip(table["time"], table["at_risk"], strict=True))[4.0] == 3


@given(times=st.lists(st.integers(1, 9), min_size=1, max_size=12))
def test_without_censoring_it_is_the_share_that_is_left(times):
    values = np.array(times, dtype=float)
    table = kaplan_meier(values, np.ones(len(values), dtype=bool))
    for time, surviving in zip(table["time"], table["surviving"], strict=True):
        assert surviving == pytest.approx((values > time).mean())


def test_the_median_counts_seeds_that_never_got_there_as_later_than_any():
    times = np.array([1.0, 2.0, 9.0, 9.0])
    assert median_time(times, np.array([True, True, False, False])) == 2.0
    assert median_time(times, np.array([True, False, False, False])) == math.inf


def test_the_log_rank_test_by_hand():
    # a: events at 1 and 2; b: events at 3 and 4. Expected in a: 1/2 + 1/3 + 0 + 0; observed 2.
    # Variance: 1/4 + 2/9; z = (2 - 5/6) / sqrt(17/36).
    ones = np.array([True, True])
    z = (2 - 5 / 6) / math.sqrt(17 / 36)
    two_sided = math.erfc(z / math.sqrt(2))
    assert logrank_p(np.array([1.0, 2.0]), ones, np.array([3.0, 4.0]), ones) == pytest.approx(two_sided)


def test_nothing_that_happened_separates_nothing():
    never = np.array([False, False])
    assert math.isnan(logrank_p(np.array([5.0, 5.0]), never, np.array([5.0, 5.0]), never))


def test_the_band_by_hand():
    # The first step of five seeds: S = 4/5, Greenwood's sum 1/(5 x 4):
    # log(-log S) +- 1.96 sqrt(sum) / |log S|.
    table = kaplan_meier(np.array([2.0, 3, 4, 5, 5]), np.array([True, False, True, False, False]))
    width = 1.959964 * math.sqrt(1 / 20) / abs(math.log(0.8))
    bounds = [math.exp(-math.exp(math.log(-math.log(0.8)) + sign * width)) for sign in (1, -1)]
    row = table.set_index("time").loc[2.0]
    assert [row["low"], row["high"]] == pytest.approx(bounds)
    assert table.loc[0, ["low", "high"]].isna().all()


def test_seeds_that_break_alike_are_as_seldom_separated_as_stated():
    rng = np.random.default_rng(0)
    found = 0
    for _ in range(200):
        times = rng.exponential(100, size=(2, 20))
        watched = np.minimum(times, 120.0)
        found += logrank_p(watched[0], times[0] < 120, watched[1], times[1] < 120) < 0.05
    assert found <= 20  # 10 expected; more than 20 happens once in five hundred
