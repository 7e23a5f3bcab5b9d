import math

import numpy as np
import pandas as pd
import pytest

from analysis.tables.factors import by_factor, by_two, chosen, fewest, logarithmic

RUNS = pd.DataFrame(
    {
        "arm": list("aabbcc"),
        "estimator": ["x", "x", "x", "x", "y", "y"],
        "lag": [16, 16, 4, 4, 4, 4],
        "rate": [1, 1, 1, 2, 2, 2],
        "final_score": [0.1, 0.3, 0.5, 0.7, math.nan, 0.9],
        "collapsed": [True, False, False, False, True, True],
    }
)
RNG = np.random.default_rng(0)


def test_a_level_is_the_mean_of_its_runs_with_values():
    table = by_factor(RUNS, factor="lag", line="estimator", metric="final_score", rng=RNG)
    rows = table[["line", "level", "mean", "n"]].to_numpy().tolist()
    assert rows == [["x", 4, pytest.approx(0.6), 2], ["x", 16, pytest.approx(0.2), 2], ["y", 4, 0.9, 1]]


def test_what_is_true_or_false_of_a_run_has_wilsons_interval():
    table = by_factor(RUNS, factor="lag", line="estimator", metric="collapsed", rng=RNG)
    assert table["mean"].tolist() == [0.0, 0.5, 1.0]
    assert table["high"].tolist()[0] > 0.5  # none of two is not never


def test_a_pair_of_levels_without_a_run_is_empty():
    table = by_two(RUNS, x="lag", y="rate", metric="collapsed")
    assert table.loc[1, 16] == 0.5
    assert table.loc[2, 4] == pytest.approx(2 / 3)
    assert math.isnan(table.loc[2, 16])
    assert fewest(RUNS, x="lag", y="rate") == 1


def test_runs_are_chosen_by_their_factors():
    assert chosen(RUNS, {"estimator": "x", "lag": [4]})["arm"].tolist() == ["b", "b"]
    with pytest.raises(ValueError, match="no 'luck'"):
        chosen(RUNS, {"luck": 1})
    with pytest.raises(ValueError, match="no run is where"):
        chosen(RUNS, {"lag": 5})


@pytest.mark.parametrize(
    ("levels", "expected"),
    [([0, 4, 32], True), ([4, 8, 16], False), ([-1, 8, 64], False), (["a", "b"], False), ([8], False)],
)
def test_levels_over_a_factor_of_eight_ask_for_a_logarithm(levels, expected):
    assert logarithmic(pd.Series(levels)) is expected
