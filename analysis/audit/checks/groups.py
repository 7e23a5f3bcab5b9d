"""How many groups teach nothing, because all their rewards are equal?"""

from __future__ import annotations

from typing import Final

from analysis.audit.checks.grade import above
from analysis.audit.finding import Check, Finding
from analysis.audit.limits import Limits
from analysis.audit.log import Log
from analysis.audit.trend import level


def without_signal(log: Log, limits: Limits) -> list[Finding]:
    """Share of groups of which every advantage is 0."""
    updates, values = log.column("zero_variance_share")
    now = level(values)
    severity = above(now, limits.no_signal)
    if severity is None:
        return []
    return [
        Finding(
            check="groups without a signal",
            severity=severity,
            what=(
                f"in {now:.0%} of the groups all rewards are equal: they cost generation and give no gradient"
            ),
            evidence={"last_quarter": now},
            n=len(values),
            where=(float(updates[0]), float(updates[-1])),
            change=log.system.changes.no_signal,
        )
    ]


CHECKS: Final = (
    Check(
        name="groups without a signal",
        question="how many groups teach nothing?",
        needs=(("zero_variance_share",),),
        find=without_signal,
    ),
)
