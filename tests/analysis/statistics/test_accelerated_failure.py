import math

import numpy as np
import pytest
from scipy import stats

from analysis.statistics.accelerated_failure import fit_failure

RATES, LAGS = np.tile([1e-3, 2e-3, 4e-3, 8e-3], 10), np.repeat([8, 16, 32, 64, 128], 8)
DESIGN = np.column_stack([np.ones(40), np.log(RATES), np.log(LAGS)])
BUDGET = 900.0
# fmt: off
TIMES = np.array([
    900.0, 900.0, 413.7, 161.7, 900.0, 621.0, 472.9, 394.6, 900.0, 772.1, 601.9, 285.4, 900.0, 682.1,
    489.1, 326.7, 900.0, 883.2, 247.9, 158.3, 900.0, 900.0, 319.4, 295.6, 900.0, 900.0, 207.7, 229.1,
    900.0, 900.0, 308.2, 234.8, 900.0, 881.6, 900.0, 220.5, 900.0, 900.0, 482.4, 291.3,
])
# fmt: on
HAPPENED = TIMES < BUDGET


@pytest.mark.parametrize(
    ("law", "coefficients", "errors", "log_scale", "log_likelihood"),
    # What lifelines 0.30.3 gives for these times: WeibullAFTFitter (minus its log rho), LogNormalAFTFitter.
    [
        (
            "Weibull",
            [0.743177, -0.972918, 0.056904],
            [0.644584, 0.121214, 0.059176],
            -1.177359,
            -157.790847,
        ),
        (
            "lognormal",
            [0.528565, -0.993164, 0.037690],
            [0.665197, 0.110906, 0.066299],
            -1.055905,
            -155.689160,
        ),
    ],
)
def test_it_is_lifelines_fit(law, coefficients, errors, log_scale, log_likelihood):
    found = fit_failure(DESIGN, TIMES, HAPPENED, law=law)
    assert found.coefficients == pytest.approx(coefficients, abs=1e-4)
    assert found.errors == pytest.approx(errors, abs=1e-4)
    assert math.log(found.scale) == pytest.approx(log_scale, abs=1e-4)
    assert found.log_likelihood == pytest.approx(log_likelihood, abs=1e-5)
    assert found.aic == pytest.approx(8 - 2 * log_likelihood, abs=1e-4)


def test_without_covariates_it_is_scipys_fit_of_censored_data():
    data = stats.CensoredData(uncensored=TIMES[HAPPENED], right=TIMES[~HAPPENED])
    shape, _, scale = stats.weibull_min.fit(data, floc=0)
    found = fit_failure(np.ones((40, 1)), TIMES, HAPPENED, law="Weibull")
    assert (1 / found.scale, math.exp(found.coefficients[0])) == pytest.approx((shape, scale), rel=1e-3)


def test_without_censoring_the_lognormal_law_is_least_squares():
    times = np.exp(DESIGN @ [1.0, -1.0, 0.2] + 0.3 * np.random.default_rng(0).normal(size=40))
    found = fit_failure(DESIGN, times, np.ones(40, dtype=bool), law="lognormal")
    line, residue, *_ = np.linalg.lstsq(DESIGN, np.log(times))
    assert found.coefficients == pytest.approx(line, abs=1e-6)
    assert found.scale == pytest.approx(math.sqrt(residue[0] / 40), rel=1e-6)


@pytest.mark.parametrize("law", ["Weibull", "lognormal"])
def test_another_unit_of_time_moves_only_the_constant(law):
    one, other = (fit_failure(DESIGN, k * TIMES, HAPPENED, law=law) for k in (1.0, 60.0))
    assert other.coefficients - one.coefficients == pytest.approx([math.log(60), 0, 0], abs=1e-5)
    assert other.errors == pytest.approx(one.errors, rel=1e-4)


@pytest.mark.parametrize("law", ["Weibull", "lognormal"])
def test_the_planted_exponent_is_covered_although_half_is_censored(law):
    rng = np.random.default_rng(0)
    held = 0
    for _ in range(150):
        noise = rng.normal(size=40) if law == "lognormal" else np.log(rng.exponential(size=40))
        times = 1.5 / RATES * np.exp(0.5 * noise)
        found = fit_failure(DESIGN, np.minimum(times, 600.0), times < 600.0, law=law)
        interval = found.interval(1, n=40, sign=-1.0)
        held += interval.low <= 1.0 <= interval.high
    # Wald's interval at some twenty events: 93 % or so.
    assert held >= stats.binom.ppf(0.001, 150, 0.93)


def test_runs_that_determine_no_line_have_none():
    never = fit_failure(DESIGN, TIMES, np.zeros(40, dtype=bool), law="Weibull")
    assert np.isnan(never.coefficients).all()
    one_rate = fit_failure(DESIGN, TIMES, HAPPENED & (RATES == 8e-3), law="Weibull")
    assert np.isnan(one_rate.errors).all()  # the rate's exponent would be infinite
    exact = fit_failure(DESIGN, 1.5 / RATES, np.ones(40, dtype=bool), law="lognormal")
    assert math.isnan(exact.scale)  # no scatter, no likelihood to maximise


@pytest.mark.parametrize("wrong", [0.0, -1.0, math.nan, math.inf])
def test_a_time_that_is_none_is_refused(wrong):
    with pytest.raises(ValueError, match="numbers above 0"):
        fit_failure(DESIGN, np.append(TIMES[1:], wrong), HAPPENED, law="Weibull")
