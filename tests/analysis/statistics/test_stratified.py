import math
from functools import partial

import numpy as np
import pytest

from analysis.statistics.intervals import bootstrap_interval, iqm
from analysis.statistics.stratified import performance_profile, shortfall, stratified_interval


def test_what_tasks_differ_by_is_no_doubt():
    # Seeds agree within each task: drawn within tasks, nothing changes; drawn from all, the mean would.
    easy, hard = [0.9] * 4, [0.1] * 4
    found = stratified_interval([easy, hard], rng=np.random.default_rng(0))
    assert (found.estimate, found.low, found.high, found.n) == pytest.approx((0.5, 0.5, 0.5, 8))
    together = bootstrap_interval(easy + hard, rng=np.random.default_rng(0))
    assert together.high - together.low > 0.4


def test_one_task_is_the_plain_bootstrap():
    values = np.random.default_rng(3).normal(size=10)
    found = stratified_interval([values], rng=np.random.default_rng(0), resamples=20_000)
    plain = bootstrap_interval(values, rng=np.random.default_rng(1), resamples=20_000)
    assert (found.low, found.high) == pytest.approx((plain.low, plain.high), abs=0.03 * values.std())


def test_the_iqm_is_of_all_runs_together():
    found = stratified_interval(
        [[0.0, 1, 2, 3], [4.0, 5, 6, 100]], rng=np.random.default_rng(0), statistic=iqm
    )
    assert found.estimate == 3.5  # of 2, 3, 4, 5


def test_what_is_beyond_the_target_makes_up_for_nothing():
    values = np.array([0.5, 0.7, 0.9, 1.0])
    assert shortfall(values, target=0.8) == pytest.approx((0.3 + 0.1) / 4)
    below = partial(shortfall, target=0.8)
    found = stratified_interval([values], rng=np.random.default_rng(0), statistic=below)
    assert 0 <= found.low < found.estimate < found.high


def test_a_task_with_one_seed_leaves_no_interval_and_nan_is_refused():
    found = stratified_interval([[0.1, 0.2], [0.3]], rng=np.random.default_rng(0))
    assert found.estimate == pytest.approx(0.2)
    assert math.isnan(found.low)
    assert math.isnan(stratified_interval([], rng=np.random.default_rng(0)).estimate)
    with pytest.raises(ValueError, match="1 of 2 values are not finite"):
        stratified_interval([[0.1, math.nan]], rng=np.random.default_rng(0))


@pytest.mark.parametrize(("statistic", "floor"), [(np.mean, 0.87), (iqm, 0.86)])
def test_five_tasks_of_eight_seeds_are_covered_nearly_as_stated(statistic, floor):
    # Drawn within tasks of n seeds the spread is short by sqrt(1 - 1/n), here 6 %: 93 % is what to expect.
    rng = np.random.default_rng(0)
    centres = np.arange(5.0)[:, None] * 0.1
    truth = 0.2
    held = 0
    for _ in range(200):
        found = stratified_interval(
            list(centres + rng.normal(size=(5, 8))), rng=rng, statistic=statistic, resamples=199
        )
        held += found.low <= truth <= found.high
    assert floor <= held / 200 <= 0.98


def test_a_profile_by_hand_falls_and_its_band_holds_it():
    thresholds = np.array([-1.0, 0.2, 0.5, 2.0])
    found = performance_profile([[0.1, 0.3], [0.5, 0.9]], thresholds, rng=np.random.default_rng(0))
    assert found["share"].tolist() == [1.0, 0.75, 0.25, 0.0]  # above 0.5, not at it
    assert (found["low"] <= found["share"]).all()
    assert (found["share"] <= found["high"]).all()
    # At 0.2 the first task has a share of 0, 1/2 or 1 (1/4, 1/2, 1/4), the second always 1.
    assert (found["low"][1], found["high"][1]) == (0.5, 1.0)


def test_the_band_of_a_profile_covers_nearly_as_stated():
    rng = np.random.default_rng(1)
    held = 0
    for _ in range(200):
        found = performance_profile(list(rng.normal(size=(3, 10))), np.zeros(1), rng=rng, resamples=199)
        held += bool(found["low"][0] <= 0.5 <= found["high"][0])
    assert 0.89 <= held / 200 <= 0.99


def test_a_profile_of_single_seeds_has_no_band():
    found = performance_profile([[0.1], [0.5]], np.array([0.3]), rng=np.random.default_rng(0))
    assert found["share"].tolist() == [0.5]
    assert found[["low", "high"]].isna().all(axis=None)
