import math

import numpy as np
import pandas as pd
import pytest
from scipy import stats

from analysis.fits.every import BESIDE, FITS, WORDS, fit, fit_table
from simulator.studies.hypothesis import FITTED
from tests.analysis.worlds import LAGS, RATES, grid

STUDIES = 24


def covered(name: str, truth: float, **world) -> int:
    """In how many simulated studies the 95 % interval holds the truth."""
    rng = np.random.default_rng(3)
    held = 0
    for _ in range(STUDIES):
        found = fit(name, grid(rng, **world), resamples=79, rng=rng).interval
        held += found.low <= truth <= found.high
    return held


def test_every_fitted_quantity_that_can_be_claimed_is_fitted_and_named():
    assert tuple(FITS) == FITTED
    assert list(WORDS) == list(FITS | BESIDE)


# Of 24 studies, 95 % is 23; fewer than this happens once in a thousand.
FEWEST = stats.binom.ppf(0.001, STUDIES, 0.95)


@pytest.mark.parametrize("exponent", [1.0, 0.6])
def test_the_planted_exponent_lies_in_its_interval_as_often_as_stated(exponent):
    assert covered("boundary_exponent", exponent, exponent=exponent) >= FEWEST


def test_a_sharp_boundary_is_not_taken_for_certainty():
    assert covered("boundary_exponent", 1.0, sharpness=20.0) >= FEWEST


def test_a_budget_that_is_too_short_for_low_rates_does_not_bend_the_exponent():
    # 1.5 / 1e-3 updates are more than 1,000: at the lowest rate nothing can be seen to collapse.
    assert covered("boundary_exponent", 1.0, budget=1000.0) >= FEWEST
    found = fit("boundary_exponent", grid(np.random.default_rng(0), budget=1000.0), resamples=99)
    assert "5 arms left out: would collapse after their last update" in found.note


@pytest.mark.parametrize(
    ("name", "truth"), [("collapse_time_learning_rate", 1.0), ("collapse_time_lag", 0.0)]
)
def test_collapse_times_are_one_over_the_rate_whatever_the_budget(name, truth):
    assert covered(name, truth) >= FEWEST
    assert covered(name, truth, budget=500.0, sharpness=3.0) >= FEWEST


def test_a_claim_about_some_arms_sees_only_those():
    table = grid(np.random.default_rng(0))
    one_rate = [f"{RATES[2]:g}-{lag}" for lag in LAGS]
    found = fit("boundary_exponent", table, arms=one_rate)
    assert math.isnan(found.interval.estimate)
    assert found.note == "cannot be had: learning rate or lag has one value only"
    with pytest.raises(ValueError, match="of which there is no run"):
        fit("boundary_exponent", table, arms=["luck"])


def test_too_few_events_are_said_not_fitted():
    calm = grid(np.random.default_rng(0)).assign(collapsed=False)
    for name in ("boundary_exponent", "collapse_time_lag"):
        found = fit(name, calm)
        assert math.isnan(found.interval.estimate)
        assert math.isnan(found.interval.low)
        assert "cannot be had: 0" in found.note
    unrated = calm.drop(columns="learning_rate")
    assert fit("boundary_exponent", unrated).note == "cannot be had: no learning rate is a factor"


def test_the_same_runs_give_the_same_interval():
    table = grid(np.random.default_rng(0))
    assert fit("boundary_exponent", table, resamples=50) == fit("boundary_exponent", table, resamples=50)


def drifting(power: float) -> pd.DataFrame:
    rng = np.random.default_rng(0)
    table = grid(rng, seeds=4)
    noise = np.exp(0.1 * rng.normal(size=len(table)))
    return table.assign(k3=1e-4 * table["lag"] ** power * (table["learning_rate"] / 1e-3) ** 2 * noise)


@pytest.mark.parametrize("power", [1.0, 2.0])
def test_diffusive_and_ballistic_drift_are_told_apart(power):
    found = fit("drift_exponent_k3", drifting(power), resamples=199).interval
    assert found.low <= power <= found.high
    assert found.high - found.low < 0.2


def test_what_has_no_logarithm_is_left_out_and_counted():
    table = drifting(1.0)
    table.loc[table.index[:2], "k3"] = -1e-6
    assert "2 runs left out: no positive k3" in fit("drift_exponent_k3", table).note


def alarmed(leads: list[float], missed: int, false: int, quiet: int) -> pd.DataFrame:
    n = len(leads) + missed + false + quiet
    none = math.nan
    return pd.DataFrame(
        {
            "arm": ["a"] * n,
            "seed": range(n),
            "alarm_lead_updates": [*leads, *[none] * (n - len(leads))],
            "missed_collapse": [0.0] * len(leads) + [1.0] * missed + [none] * (false + quiet),
            "false_alarm": [none] * (len(leads) + missed) + [1.0] * false + [0.0] * quiet,
        }
    )


def test_how_good_the_alarm_is_by_hand():
    table = alarmed([10, 20, 30, 40, 50], missed=5, false=2, quiet=8)
    assert fit("alarm_lead_updates", table).interval.estimate == 30
    assert fit("alarm_missed_share", table).interval.estimate == 0.5
    assert fit("alarm_false_share", table).interval.estimate == 0.2
    assert fit("alarm_false_share", table).runs == "2 of 10 runs that never collapsed had an alarm"


def test_no_false_alarm_in_ten_is_not_none_ever():
    found = fit("alarm_false_share", alarmed([], missed=0, false=0, quiet=10)).interval
    reference = stats.binomtest(0, 10).proportion_ci(method="wilson")
    assert (found.low, found.high) == pytest.approx((0.0, reference.high))


def test_a_report_fits_each_estimator_apart_and_only_what_was_measured():
    table = pd.concat([grid(np.random.default_rng(i)).assign(estimator=e) for i, e in enumerate("ab")])
    unmeasured = dict.fromkeys(("k1", "k3", "false_alarm", "missed_collapse"), math.nan)
    shown = fit_table(table.assign(arm=table["estimator"] + table["arm"], **unmeasured))
    assert shown["estimator"].tolist() == ["a"] * 5 + ["b"] * 5
    assert shown["quantity"].tolist()[:3] == list(FITTED[:3])
