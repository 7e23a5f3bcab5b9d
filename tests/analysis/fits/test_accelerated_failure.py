import math

import numpy as np
import pytest
from scipy import stats

from analysis.fits.every import fit
from tests.analysis.worlds import grid

RATE, LAG = "accelerated_failure_learning_rate", "accelerated_failure_lag"


@pytest.mark.parametrize(("name", "truth"), [(RATE, 1.0), (LAG, 0.0)])
def test_where_every_run_collapses_at_last_it_holds_the_planted_exponent(name, truth):
    rng = np.random.default_rng(3)
    found = [fit(name, certain(rng)).interval for _ in range(12)]
    held = sum(interval.low <= truth <= interval.high for interval in found)
    assert held >= stats.binom.ppf(0.001, 12, 0.95)


def certain(rng: np.random.Generator):
    """A boundary far below every rate: whoever holds out until the budget would have collapsed later."""
    table = grid(rng, seeds=4, sharpness=0.0, total=1.5, scatter=0.3)
    table["time"] = 1.5 / table["learning_rate"] * np.exp(0.3 * rng.normal(size=len(table)))
    table["collapsed"] = table["time"] < 500.0
    ends = table["lag"] + table["time"].where(table["collapsed"], 500.0)
    until = table["lag"] + 500.0
    fate = table["collapsed"].map({True: "collapsed", False: "stalled"})
    return table.assign(event_update=ends, watched_until_update=until, fate=fate)


def test_near_a_boundary_runs_that_never_would_make_the_exponent_too_large():
    # The planted exponent is 1 in all; half of the runs never collapse, however long they are watched.
    rng = np.random.default_rng(3)
    tables = [grid(rng, budget=500.0, sharpness=3.0) for _ in range(5)]
    censored, truncated = (
        np.mean([fit(name, table, resamples=9).interval.estimate for table in tables])
        for name in (RATE, "collapse_time_learning_rate")
    )
    assert censored > 1.15
    assert truncated == pytest.approx(1.0, abs=0.1)
    assert "b is too large near a boundary" in fit(RATE, tables[0]).note


def test_what_cannot_be_had_is_said():
    table = grid(np.random.default_rng(0))
    for changed, why in (
        (table.drop(columns="learning_rate"), "no learning rate is a factor"),
        (table.assign(collapsed=False), "0 collapses; 5 are needed"),
        (table.assign(learning_rate=1e-3), "learning rate has one value only"),
        (table.iloc[:0], "0 collapses; 5 are needed"),
    ):
        found = fit(RATE, changed)
        assert math.isnan(found.interval.estimate)
        assert found.note == f"cannot be had: {why}"
