r"""Are the recorded log-probs those of the distribution that was sampled from, at the trainer's temperature?

Sampled at temperature T and recorded or recomputed at 1, a token's two log-probs are a straight line of slope
other than 1. Both sides carry noise, so the slope is the ratio of standard deviations (the reduced major
axis), which equal noise leaves at 1; ordinary least squares would fall below it. And under the distribution
that was sampled from, the mean ratio is exactly 1: :math:`E_\mu[\pi / \mu] = 1`.
"""

from __future__ import annotations

import math
from typing import Final

from analysis.audit.checks.grade import above
from analysis.audit.finding import Check, Finding
from analysis.audit.limits import Limits
from analysis.audit.log import Log
from analysis.audit.trend import level

_TOKENS: Final = 500
"""Fewest tokens. *Choice*."""
_CORRELATION: Final = 0.8
"""Below it the two log-probs have no line in common, and a slope says nothing. *Choice*."""


def slope(log: Log, limits: Limits) -> list[Finding]:
    """Slope of behaviour against trainer log-probs, at the least lag of which there are enough tokens."""
    table = log.tokens.sort_values("lag")
    enough = table.loc[table["tokens"] >= _TOKENS]
    row = enough.iloc[0] if len(enough) else table.sum()
    n = float(row["tokens"])
    if n < _TOKENS:
        return []
    x_spread = row["xx"] / n - (row["x"] / n) ** 2
    y_spread = row["yy"] / n - (row["y"] / n) ** 2
    if x_spread <= 0 or y_spread <= 0:
        return []
    correlation = (row["xy"] / n - row["x"] * row["y"] / n**2) / math.sqrt(x_spread * y_spread)
    found = math.sqrt(y_spread / x_spread)
    severity = above(abs(found - 1), limits.temperature)
    if severity is None or correlation < _CORRELATION:
        return []
    return [
        Finding(
            check="temperature",
            severity=severity,
            what=(
                f"behaviour log-probs are {found:.3g} times as spread as the trainer's of the same tokens, "
                "as if one side "
                f"used a temperature of about {1 / found:.2g} times the other's"
            ),
            evidence={"slope": found, "correlation": float(correlation)},
            n=int(n),
            of="tokens",
            change=log.system.changes.temperature,
        )
    ]


def mean_ratio(log: Log, limits: Limits) -> list[Finding]:
    """The mean of pi / mu, where it is logged as it is."""
    updates, values = log.column("ratio_mean")
    if len(values) < limits.fewest_updates:
        return []
    now = level(values)
    severity = above(abs(now - 1), limits.ratio_mean)
    if severity is None:
        return []
    return [
        Finding(
            check="mean ratio",
            severity=severity,
            what=(
                f"the mean ratio is {now:.3g}; it is 1 if the recorded log-probs are of what was sampled from"
            ),
            evidence={"last_quarter": now},
            n=len(values),
            where=(float(updates[0]), float(updates[-1])),
            change=log.system.changes.temperature,
        )
    ]


CHECKS: Final = (
    Check(
        name="temperature",
        question="do sampling and training use one temperature?",
        needs=(("token log-probs",),),
        find=slope,
    ),
    Check(
        name="mean ratio",
        question="is the mean ratio 1?",
        needs=(("ratio_mean",),),
        find=mean_ratio,
    ),
)
