import dataclasses
import re
from functools import cache

import numpy as np
import pandas as pd
import pytest
from matplotlib.figure import Figure

from analysis.figures import collapse as collapse_figures
from analysis.figures import factors as factor_figures
from analysis.figures import phase as phase_figures
from analysis.figures.style import looks
from analysis.measures.collapse import Criteria
from analysis.pictures.drift import drift_name
from analysis.pictures.registered import KINDS, picture, registered_pictures
from analysis.statistics.intervals import Interval
from analysis.study import Study, summarise
from analysis.tables.factors import NothingToShowError, by_two
from analysis.tables.time import cosine_table, shift_table
from tests.analysis.factories import recorded, run_of
from tests.analysis.worlds import grid

CRITERIA = Criteria(
    target=0.7, chance=0.1, collapse_window_updates=5, shift_updates=(20,), alarm_window_updates=5
)
UPDATES = 40
BREAKS = 30
SEEN = {
    "masked_fraction": 0.05,
    "masked_positive_fraction": 0.02,
    "masked_negative_fraction": 0.03,
    "log_ratio_p50": 0.01,
    "log_ratio_p90": 0.1,
    "log_ratio_p99": 0.5,
    "log_ratio_p99_9": 1.0,
    "explained_variance": 0.3,
    "critic_gradient_norm": 2.0,
    "gradient_norm": 0.5,
    "entropy": 1.5,
}


@cache
def study() -> Study:
    """Two estimators at lags 2 and 16; grpo breaks at 30, its gradients line up from 20 on."""
    runs, factors = [], {}
    for estimator in ("grpo", "sao"):
        for lag in (2, 16):
            arm = f"{estimator}-{lag}"
            factors[arm] = {"estimator": estimator, "lag": lag, "learning_rate": 1e-3 * lag}
            for seed in range(3):
                version = np.arange(1, UPDATES + 1)
                score = np.where((version > 20) & (version <= 25), 0.5, 0.8)
                broken = estimator == "grpo" and lag == 16
                score = np.where(broken & (version >= BREAKS), 0.1, score)
                recorder = recorded(score, lag=lag, k3=0.001 * lag, ess_token=0.9, **SEEN)
                run = run_of(recorder, arm=arm, seed=seed)
                run.updates["gradient_cosine"] = np.where(broken & (version > 20), 0.6, 0.0)
                runs.append(run)
    return summarise(runs, CRITERIA, factors=factors)


OPTIONS = {"heat_map": {"x": "lag", "y": "estimator"}, "masks": {"x": "lag", "y": "estimator"}}


def draw(kind: str, **options):
    return picture(kind, {**OPTIONS.get(kind, {}), **options}, study(), np.random.default_rng(0), name=kind)


@pytest.mark.parametrize("kind", KINDS)
def test_every_kind_is_drawn_and_says_in_words_what_it_shows(kind):
    shown = draw(kind)
    assert len(shown) >= 1
    for one in shown:
        assert one.drawing.svg().startswith("<svg")
        assert "nan" not in one.alt + one.caption
        assert len(one.alt) > 20


def test_the_drift_of_a_healthy_run_is_fitted_and_named():
    # k3 is .001 of the lag in every run: slope 1, without any scatter. Broken runs are no part of it.
    # Its learning rate grows with its lag: with both in the fit there would be no one slope.
    one_rate = dataclasses.replace(study(), outcomes=study().outcomes.drop(columns="learning_rate"))
    where = {"estimator": "sao"}
    kl, ess = picture("drift_by_lag", {"where": where}, one_rate, np.random.default_rng(0), name="drift")
    assert "sao 1.00 [1.00, 1.00], diffusive" in kl.caption
    assert ess.data is not None
    np.testing.assert_allclose(ess.data["mean_theory"], np.exp([-0.004, -0.032]))


def test_a_slope_is_named_by_what_its_interval_holds():
    def named(estimate: float, low: float, high: float) -> str:
        return drift_name(
            Interval(estimate=estimate, low=low, high=high, n=9, confidence=0.95, method="")
        ).split(", ")[-1]

    assert named(1.9, 1.7, 2.1) == "ballistic"
    assert named(1.4, 0.9, 2.1) == "diffusive or ballistic"
    assert named(1.5, 1.2, 1.8) == "between diffusive and ballistic"
    assert named(0.5, 0.3, 0.7) == "slower than diffusive"
    assert named(2.5, 2.3, 2.7) == "faster than ballistic"
    assert named(1.0, np.nan, np.nan) == "without an interval"


def test_a_kind_without_data_has_nothing_to_show():
    measured = study()
    bare = dataclasses.replace(measured, updates=measured.updates.drop(columns=list(SEEN)))
    for kind in ("masks", "ratio_tail", "critic"):
        with pytest.raises(NothingToShowError):
            picture(kind, OPTIONS.get(kind, {}), bare, np.random.default_rng(0), name=kind)


def test_a_kind_or_an_option_that_there_is_not_is_named():
    with pytest.raises(ValueError, match="no picture is of the kind 'pie'; there are score_by_factor"):
        draw("pie")
    with pytest.raises(ValueError, match="'survival' has no option 'colour'; it has line, where"):
        draw("survival", colour="red")
    with pytest.raises(ValueError, match="'score_by_factor': outcomes carry no 'luck'"):
        draw("score_by_factor", metric="luck")
    with pytest.raises(ValueError, match="'curves_by_arm': x is 'days'"):
        draw("curves_by_arm", x="days")


def test_pictures_come_in_the_order_in_which_they_were_registered():
    asked = [{"kind": "survival"}, {"kind": "curves_by_arm", "title": "Mine", "where": {"lag": 2}}]
    shown = registered_pictures(study(), asked, np.random.default_rng(0))
    assert [one.title for one in shown] == ["Seeds still standing", "Mine"]
    assert "grpo: 3 of 6 collapsed; sao: 0 of 6 collapsed" in shown[0].alt
    assert "Log-rank against grpo: sao p = " in shown[0].caption
    ids = [name for one in shown for name in re.findall(r'\bid="([^"]+)"', one.drawing.svg())]
    assert len(ids) == len(set(ids))


def test_a_recovery_says_how_long_it_took():
    # The trailing mean of the ten updates since the shift rises over .72 only after the five at .5 are gone.
    (shown,) = draw("recovery", where={"estimator": "sao"}, back=5, ahead=10)
    assert re.search(r"sao 1[0-9](\.\d)? \[", shown.alt)
    assert "100% of shifts" in shown.alt


def test_curves_line_up_at_the_shift():
    runs = {(arm, seed): "all" for arm in ("sao-2",) for seed in range(3)}
    table = shift_table(study().updates, runs, CRITERIA, back=2, ahead=6, rng=np.random.default_rng(0))
    by_x = table.set_index("x")["mean"]
    assert by_x[0] == pytest.approx(0.8)
    assert by_x[1] == by_x[5] == pytest.approx(0.5)
    assert by_x[6] == pytest.approx(0.8)
    assert set(table["n"]) == {3}


def test_cosines_line_up_at_the_collapse():
    table = cosine_table(study().updates, study().outcomes, CRITERIA, back=12, rng=np.random.default_rng(0))
    broken = table.loc[table["line"] == "collapsed (n = 3)"].set_index("x")["mean"]
    # The window of five fills with .6 over updates 21 to 25, nine to five before the break at 30.
    assert broken[-10] == pytest.approx(0.0)
    assert broken[-9] == pytest.approx(0.6 / 5)
    assert [broken[-5], broken[0]] == pytest.approx([0.6, 0.6])
    healthy = table.loc[table["line"] != "collapsed (n = 3)"]
    assert set(healthy["mean"]) == {0.0}
    assert set(healthy["n"]) == {9}


@pytest.fixture
def axes():
    return Figure().add_subplot()


def test_the_phase_diagram_draws_the_boundary_that_it_was_given(axes):
    table = by_two(grid(np.random.default_rng(0)), x="lag", y="learning_rate", metric="collapsed")
    phase_figures.phase_diagram(table, axes, x="lag", y="rate", exponent=(0.18, 1.0))
    fit, slope = axes.lines
    lags, rates = fit.get_data()
    assert rates * lags == pytest.approx(0.18)
    assert slope.get_ydata() == pytest.approx(rates)  # the same slope through the same middle
    assert len(axes.texts) == 25


def test_a_lag_of_0_is_not_on_a_log_axis_and_that_is_said(axes):
    table = pd.DataFrame([[0.0, 0.5], [0.0, 1.0]], index=[0.001, 0.002], columns=[0, 8])
    phase_figures.phase_diagram(table, axes, x="lag", y="rate")
    assert axes.texts[-1].get_text() == "2 cells at lag 0 not drawn"


def test_points_that_have_no_logarithm_are_counted(axes):
    table = pd.DataFrame(
        {"line": "a", "level": [0, 4, 8], "mean": [0.1, 0.2, -0.1], "low": 0.1, "high": 0.3, "n": 3}
    )
    factor_figures.lines_on_logs(table, axes, look=looks(["a"]), x="lag", y="KL", slopes={"slope 1": 1.0})
    assert axes.texts[-1].get_text() == "2 points at 0 or below not drawn"


def test_a_level_of_0_has_a_place_beside_the_logarithms(axes):
    table = pd.DataFrame({"line": "a", "level": [0, 4, 16, 64], "mean": 0.5, "low": 0.4, "high": 0.6, "n": 3})
    factor_figures.lines_by_factor(table, axes, look=looks(["a"]), x="lag", y="score")
    assert axes.lines[0].get_xdata().tolist() == [0, 2, 4, 6]
    assert [label.get_text() for label in axes.get_xticklabels()] == ["0", "4", "16", "64"]


def test_the_numbers_at_risk_stand_under_the_curves(axes):
    runs = pd.DataFrame(
        {"line": "a", "event_update": [50.0, 100.0, 100.0], "collapsed": [True, False, False]}
    )
    collapse_figures.survival(runs, axes, look=looks(["a"]))
    assert axes.lines[0].get_ydata()[-1] == pytest.approx(2 / 3)
    assert axes.figure.legends[0].get_texts()[0].get_text() == "a (1 of 3 collapsed)"
    assert [text.get_text() for text in axes.texts] == ["3", "3", "3", "2", "2"]


def test_collapse_times_are_counted_from_the_first_stale_data(axes):
    runs = pd.DataFrame({"lag": [8, 8, 8], "learning_rate": 0.01, "event_update": [108.0, 208.0, 7.0]})
    collapse_figures.collapse_times(runs, axes, look=looks(["8"]))
    assert axes.lines[0].get_ydata().tolist() == pytest.approx([1.0, 2.0])
    assert axes.lines[1].get_ydata().tolist() == pytest.approx([1.5])
    assert axes.texts[0].get_text() == "1 before the first stale data not drawn"
