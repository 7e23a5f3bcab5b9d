import math

import numpy as np
import pandas as pd
import pytest

from analysis.statistics.resampling import membership, percentiles, seed_weights, weighted_median

ARMS = pd.Series(["a", "b", "a", "b", "b"])


def test_every_sample_keeps_each_arms_number_of_seeds():
    weights = seed_weights(ARMS, rng=np.random.default_rng(0), resamples=50)
    assert weights[0].tolist() == [1] * 5
    names, member = membership(ARMS)
    assert names.tolist() == ["a", "b"]
    assert (weights @ member == [2, 3]).all()
    assert len(np.unique(weights, axis=0)) > 5


def test_the_first_is_the_estimate_and_too_many_lost_samples_leave_no_interval():
    drawn = np.arange(100.0)
    found, note = percentiles(np.concatenate([[7.0], drawn]), n=5, confidence=0.9)
    assert (found.estimate, found.low, found.high) == pytest.approx((7.0, 4.95, 94.05))
    assert note == ""
    found, note = percentiles(np.concatenate([[7.0], drawn[:90], [math.nan] * 10]), n=5, confidence=0.9)
    assert math.isnan(found.low)
    assert note == "10 of 100 drawn samples could not be fitted"


def test_a_weighted_median_repeats_what_weighs_more():
    values = np.array([5.0, 1, 3])
    weights = np.array([[1.0, 1, 1], [3, 1, 1], [0, 1, 0], [0, 0, 0]])
    found = weighted_median(values, weights)
    assert found[:3].tolist() == [3, 5, 1]
    assert math.isnan(found[3])
