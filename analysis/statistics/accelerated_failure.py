r"""How does the time of an event stretch with what was set? Accelerated failure, censored runs kept.

:math:`\log t = x \beta + \sigma \varepsilon`: each covariate multiplies time. With :math:`\varepsilon` of the
least extreme value the times are Weibull, with a normal one lognormal. A run that was censored at t says that
its event would have come later: the model has no run to which it never comes.

In :math:`\theta = 1 / \sigma`, :math:`\delta = \beta / \sigma` and :math:`z = \theta \log t - x \delta` the
log-likelihood, the sum of :math:`\log \theta - \log t + \log f(z)` over events and of :math:`\log S(z)` over
censored runs, is concave for both laws, so Newton's steps find its only maximum. Standard errors are those of
the observed information, intervals Wald's.

By hand, since scipy fits censored data without covariates only, statsmodels has no parametric model of them,
and lifelines, which has both laws, needs an older pandas.

References:
    Kalbfleisch and Prentice 2002, The Statistical Analysis of Failure Time Data, chapter 3; Burridge 1981, on
    the concavity, https://doi.org/10.1111/j.2517-6161.1981.tb01151.x.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import Final, Literal, final

import numpy as np
from numpy.typing import NDArray
from scipy import optimize, stats
from scipy.special import log_ndtr

from analysis.statistics.intervals import Interval

Floats = NDArray[np.float64]
Bools = NDArray[np.bool_]
Law = Literal["Weibull", "lognormal"]
Terms = Callable[[Floats], tuple[Floats, Floats, Floats]]
"""Value, slope and curvature, at each z."""


@final
@dataclass(frozen=True, slots=True, kw_only=True)
class FailureFit:
    """A fitted model; arrays are all NaN where the runs do not determine it."""

    law: Law
    coefficients: Floats
    """beta, one a column of the design."""
    errors: Floats
    """Standard errors of beta."""
    scale: float
    """sigma, the spread of log time; of a Weibull law, one over its shape."""
    log_likelihood: float
    """Of the times (not of their logarithms)."""

    @property
    def aic(self) -> float:
        """Akaike's criterion; lower fits better."""
        return 2 * (len(self.coefficients) + 1) - 2 * self.log_likelihood

    def interval(self, column: int, *, n: int, sign: float = 1.0, confidence: float = 0.95) -> Interval:
        """Wald's interval of one coefficient, or with sign -1 of minus it; n is said, not used."""
        half = float(stats.norm.ppf((1 + confidence) / 2)) * float(self.errors[column])
        estimate = sign * float(self.coefficients[column])
        return Interval(
            estimate=estimate,
            low=estimate - half,
            high=estimate + half,
            n=n,
            confidence=confidence,
            method=f"Wald, of a {self.law} accelerated-failure fit",
        )


def fit_failure(design: Floats, times: Floats, happened: Bools, *, law: Law) -> FailureFit:
    """Maximum likelihood of one law.

    Args:
        design: shape (runs, columns), a column of ones among them.
        times: of the event, or until when the run was watched; above 0, any unit; shape (runs,).
        happened: False for a run that is censored at its time.

    Raises:
        ValueError: a time is not a number above 0.
    """
    if not (np.isfinite(times) & (times > 0)).all():
        raise ValueError("accelerated failure needs times that are numbers above 0")
    log_times = np.log(times)
    x = np.column_stack([-design, log_times])  # z = x (delta, theta)
    density, survival = _LAWS[law]
    nothing = np.full(design.shape[1], math.nan)
    unknown = FailureFit(
        law=law, coefficients=nothing, errors=nothing, scale=math.nan, log_likelihood=math.nan
    )
    # Without scatter sigma is 0 and the likelihood has no maximum.
    if happened.sum() < x.shape[1] or np.linalg.matrix_rank(x[happened]) < x.shape[1]:
        return unknown

    def terms(p: Floats) -> tuple[float, Floats, Floats]:
        """Minus the log-likelihood of log times, its slope and its curvature."""
        z = x @ p
        value, slope, curve = (
            np.where(happened, seen, not_yet) for seen, not_yet in zip(density(z), survival(z), strict=True)
        )
        events, theta = int(happened.sum()), p[-1]
        down, bend = slope @ x, (x * curve[:, None]).T @ x
        down[-1] += events / theta
        bend[-1, -1] -= events / theta**2
        return -(value.sum() + events * math.log(theta)), -down, -bend

    start = np.linalg.lstsq(design, log_times)[0]
    spread = max(float(np.std(log_times - design @ start)), 1e-3)
    p = _minimum(terms, np.append(start, 1.0) / spread)
    if p is None:
        return unknown
    height, _, information = terms(p)
    beta = p[:-1] / p[-1]
    # beta = delta / theta, by the delta method.
    turn = np.column_stack([np.eye(len(beta)), -beta]) / p[-1]
    covariance = turn @ np.linalg.inv(information) @ turn.T
    return FailureFit(
        law=law,
        coefficients=beta,
        errors=np.sqrt(np.diag(covariance)),
        scale=1 / float(p[-1]),
        log_likelihood=float(-height - log_times[happened].sum()),
    )


def _minimum(terms: Callable[[Floats], tuple[float, Floats, Floats]], start: Floats) -> Floats | None:
    """Where minus the log-likelihood is least; None if the search did not get there."""
    found = optimize.minimize(  # type: ignore[call-overload]  # stubs: arrays of one dimension by type
        lambda p: terms(p)[0] if p[-1] > 0 else math.inf,
        start,
        jac=lambda p: terms(p)[1],
        hess=lambda p: terms(p)[2],
        method="trust-exact",
        tol=_FLAT,
    )
    return np.asarray(found.x) if found.success else None


def _weibull_density(z: Floats) -> tuple[Floats, Floats, Floats]:
    hazard = np.exp(np.minimum(z, _HIGHEST))
    return z - hazard, 1 - hazard, -hazard


def _weibull_survival(z: Floats) -> tuple[Floats, Floats, Floats]:
    hazard = np.exp(np.minimum(z, _HIGHEST))
    return -hazard, -hazard, -hazard


def _normal_density(z: Floats) -> tuple[Floats, Floats, Floats]:
    return -(z**2) / 2 - _LOG_ROOT, -z, np.full_like(z, -1.0)


def _normal_survival(z: Floats) -> tuple[Floats, Floats, Floats]:
    log_left = log_ndtr(-z)
    hazard = np.exp(-(z**2) / 2 - _LOG_ROOT - log_left)
    return log_left, -hazard, -hazard * (hazard - z)


_FLAT: Final = 1e-6
"""Slope of the log-likelihood, of a sum over runs, at which the search ends."""
_HIGHEST: Final = 300.0
"""Beyond it e^z overflows once it is squared; a step of the search may look there."""
_LOG_ROOT: Final = math.log(math.sqrt(2 * math.pi))
_LAWS: Final[dict[Law, tuple[Terms, Terms]]] = {
    "Weibull": (_weibull_density, _weibull_survival),
    "lognormal": (_normal_density, _normal_survival),
}
