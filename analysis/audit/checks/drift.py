r"""Is the divergence the policy's age, or the engine? And does drift wander, or does it have a direction?

With k versions of lag the divergence of behaviour and trainer is :math:`a + b k^p`. The part a is there at
lag 0: it is the engine's. A policy that wanders (diffusive drift) has p = 1, one whose updates all point the
same way (ballistic drift) p = 2, and then the effective sample size of rollouts of T tokens falls as
:math:`e^{-2 T b k}` or :math:`e^{-2 T b k^2}`: where no divergence is logged, minus its logarithm is fitted
instead. Drift with a direction has been seen to come before collapse (https://arxiv.org/abs/2607.01083).
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final, final

import numpy as np

from analysis.audit.checks.grade import above, below, worse
from analysis.audit.finding import Check, Finding, Severity
from analysis.audit.limits import Limits
from analysis.audit.log import Floats, Log
from analysis.audit.trend import level

DIVERGENCE: Final = "the divergence in nats a token"
MINUS_LOG_ESS: Final = "minus the log of the effective sample size"
_LAGS: Final = 4
"""Distinct lags that a curve needs. *Choice*."""
_SPAN: Final = 4.0
"""Largest over smallest of them. *Choice*."""
_EXPONENTS: Final = np.linspace(0.5, 3.0, 51)


@final
@dataclass(frozen=True, slots=True, kw_only=True)
class Curve:
    """Divergence by lag: a + b k^p."""

    engine: float
    """a, in nats a token."""
    per_lag: float
    """b."""
    exponent: float
    explained: float
    """Share of the variance over lags that the curve explains."""
    n: int


def curve(lags: Floats, divergence: Floats, weights: Floats) -> Curve | None:
    """Fit the curve over distinct lags; None if they are too few or too close.

    Args:
        lags: shape (n,), distinct, rising, not negative.
        divergence: nats a token.
        weights: what stands behind each value.
    """
    positive = lags[lags > 0]
    if len(lags) < _LAGS or len(positive) < 3 or positive.max() < _SPAN * positive.min():
        return None
    root = np.sqrt(weights / weights.sum())
    spread = float(
        (weights * (divergence - np.average(divergence, weights=weights)) ** 2).sum() / weights.sum()
    )
    best: tuple[float, float, float, float] | None = None
    for exponent in _EXPONENTS:
        design = np.stack([np.ones_like(lags), lags**exponent], axis=1)
        fitted, *_ = np.linalg.lstsq(design * root[:, None], divergence * root, rcond=None)
        # Neither part of a divergence is negative.
        a, b = max(0.0, float(fitted[0])), max(0.0, float(fitted[1]))
        left = float(((root * (divergence - a - b * lags**exponent)) ** 2).sum())
        if best is None or left < best[0]:
            best = (left, a, b, float(exponent))
    if best is None or spread <= 0:
        return None
    return Curve(
        engine=best[1], per_lag=best[2], exponent=best[3], explained=1 - best[0] / spread, n=len(lags)
    )


def by_lag(log: Log) -> tuple[str, tuple[Floats, Floats, Floats]] | None:
    """What was fitted; and lags, values and weights, of tokens, or of updates of about the same lag."""
    tokens = log.tokens.loc[log.tokens["lag"] >= 0]
    if len(tokens) > 1:
        of_tokens = (
            tokens["lag"].to_numpy(dtype=float),
            (tokens["k3"] / tokens["tokens"]).to_numpy(dtype=float),
            tokens["tokens"].to_numpy(dtype=float),
        )
        return DIVERGENCE, of_tokens
    name = next((name for name in ("kl_k3", "kl_k1", "ess") if log.has(name)), None)
    if name is None or not log.has("lag_mean"):
        return None
    both = log.updates[["lag_mean", name]].dropna()
    if name == "ess":
        both = both.loc[both[name] > 0]
        values = -np.log(both[name])
    else:
        values = both[name].abs()
    table = values.groupby(both["lag_mean"].round(1)).agg(["mean", "count"])
    of_updates = (
        table.index.to_numpy(dtype=float),
        table["mean"].to_numpy(dtype=float),
        table["count"].to_numpy(dtype=float),
    )
    return (MINUS_LOG_ESS if name == "ess" else DIVERGENCE), of_updates


def engine_or_age(log: Log, limits: Limits) -> list[Finding]:
    """The divergence told apart."""
    found = by_lag(log)
    fitted = None if found is None else curve(*found[1])
    if found is None or fitted is None or fitted.explained < 0.5:
        return []
    engine = above(fitted.engine, limits.mismatch) if found[0] == DIVERGENCE else None
    directed = fitted.exponent >= limits.ballistic and fitted.per_lag > 0
    severity: Severity = worse(engine, "warning" if directed else None) or "info"
    kind = "has a direction (ballistic)" if directed else "wanders (diffusive)"
    return [
        Finding(
            check="engine or age",
            severity=severity,
            what=(
                f"{found[0]} is {fitted.engine:.2g} + {fitted.per_lag:.2g} lag^{fitted.exponent:.1f}: the "
                "first part is "
                f"there without lag, the second is the policy's drift, which {kind}"
            ),
            evidence={
                "without_lag": fitted.engine,
                "per_lag": fitted.per_lag,
                "exponent": fitted.exponent,
                "explained": fitted.explained,
            },
            n=fitted.n,
            of="lags",
            change=log.system.changes.mismatch if engine else (log.system.changes.drift if directed else ""),
        )
    ]


def engine(log: Log, limits: Limits) -> list[Finding]:
    """Engine against trainer where nothing else can differ: at lag 0, or as the system measured it."""
    fresh = log.tokens.loc[log.tokens["lag"] == 0]
    measured: list[tuple[str, float, Severity | None, int, str]] = []
    if len(fresh):
        tokens = float(fresh["tokens"].sum())
        gap = float(fresh["k3"].sum()) / tokens
        measured.append(("nats a token at lag 0", gap, above(gap, limits.mismatch), int(tokens), "tokens"))
    if log.has("kl_engine"):
        _, values = log.column("kl_engine")
        gap = level(np.abs(values))
        measured.append(
            ("nats a token at one version", gap, above(gap, limits.mismatch), len(values), "updates")
        )
    if log.has("prob_correlation"):
        _, values = log.column("prob_correlation")
        found = level(values)
        measured.append(
            ("correlation of probabilities", found, below(found, limits.correlation), len(values), "updates")
        )
    return [
        Finding(
            check="engine mismatch",
            severity=severity,
            what=f"engine and trainer disagree about the same tokens: {value:.3g} ({name})",
            evidence={name: value},
            n=n,
            of=of,
            change=log.system.changes.mismatch,
        )
        for name, value, severity, n, of in measured
        if severity is not None
    ]


CHECKS: Final = (
    Check(
        name="engine or age",
        question="is the divergence the engine's or the policy's?",
        needs=(("lag_mean", "kl_k3"), ("lag_mean", "kl_k1"), ("lag_mean", "ess"), ("token log-probs",)),
        find=engine_or_age,
    ),
    Check(
        name="engine mismatch",
        question="do engine and trainer agree about the same weights?",
        needs=(("token log-probs",), ("kl_engine",), ("prob_correlation",)),
        find=engine,
    ),
)
