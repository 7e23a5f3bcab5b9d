import math

import numpy as np
import pandas as pd
import pytest

from analysis.measures.curves import at_hours, binned, curve_table, hours_to_target, mean_curve, score
from tests.analysis.factories import updates_table

RUNS = [np.array([1.0, 2, 3, 4]), np.array([1.0, 2]), np.array([3.0, 4, 5, 6])]


def test_a_mean_over_runs_of_unequal_length_shows_its_n():
    # Case E03: the jump at step 3 comes from losing a run, not from learning.
    mean, n = mean_curve(RUNS, ends="show")
    assert mean.tolist() == pytest.approx([5 / 3, 8 / 3, 4, 5])
    assert n.tolist() == [3, 3, 2, 2]


def test_the_default_ends_where_the_shortest_run_ends():
    mean, n = mean_curve(RUNS)
    assert mean.tolist() == pytest.approx([5 / 3, 8 / 3])
    assert n.tolist() == [3, 3]


def test_an_unmeasured_update_is_left_out_not_counted_as_0():
    points = score(updates_table(accuracy=[0.5, math.nan, 0.7]), "accuracy")
    assert points["version"].tolist() == [1, 3]
    assert points["hours"].tolist() == [1.0, 3.0]
    with pytest.raises(KeyError, match="no 'kl'"):
        score(updates_table(accuracy=[0.5]), "kl")


def test_hours_to_target_is_the_first_time_or_none():
    points = score(updates_table(accuracy=[0.1, 0.8, 0.2, 0.9]), "accuracy")
    assert hours_to_target(points, 0.8) == 2.0
    assert hours_to_target(points, 0.85) == 4.0
    assert hours_to_target(points, 0.95) is None


def test_by_hours_a_run_has_its_latest_value_and_none_after_its_end():
    points = score(updates_table(accuracy=[0.1, 0.8]), "accuracy")
    values = at_hours(points, np.array([0.5, 1.0, 1.5, 2.0, 2.5]))
    np.testing.assert_equal(values, [math.nan, 0.1, 0.1, 0.8, math.nan])


def test_bins_average_everything_and_thin_out_nothing():
    rng = np.random.default_rng(0)
    values = rng.random(100)
    points = score(updates_table(accuracy=values), "accuracy")
    bins = binned(points, "version", np.linspace(0, 100, 11))
    np.testing.assert_allclose(bins, values.reshape(10, 10).mean(axis=1))


def test_a_curve_table_carries_n_and_cuts_each_arm_at_its_common_length():
    runs = [
        updates_table(accuracy=[0.1] * n).assign(arm=arm, seed=seed)
        for arm, seed, n in (("a", 0, 6), ("a", 1, 4), ("b", 0, 5))
    ]
    table = curve_table(pd.concat(runs), "accuracy", x="version", rng=np.random.default_rng(0))
    ends = table.groupby("arm")["x"].max().to_dict()
    assert ends == {"a": 4.0, "b": 5.0}
    assert set(table.loc[table["arm"] == "a", "n"]) == {2}
    alone = table.loc[table["arm"] == "b"]
    assert alone["low"].isna().all()  # one seed has no interval
    by_hours = curve_table(pd.concat(runs), "accuracy", x="hours", rng=np.random.default_rng(0))
    assert by_hours.groupby("arm")["x"].agg(["min", "max"]).loc["a"].tolist() == [1.0, 4.0]
    assert set(by_hours.loc[by_hours["arm"] == "a", "n"]) == {2}
