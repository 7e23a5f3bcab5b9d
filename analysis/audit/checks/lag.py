"""Is the data older than it should be, and does it get older?"""

from __future__ import annotations

from typing import Final

from analysis.audit.checks.grade import above, spell
from analysis.audit.finding import BOUND, Check, Finding
from analysis.audit.limits import Limits
from analysis.audit.log import Log
from analysis.audit.trend import trend


def creeping(log: Log, limits: Limits) -> list[Finding]:
    """The lag still rises when the pipeline has long been full."""
    name = "lag_mean" if log.has("lag_mean") else "lag_max"
    found = trend(*log.column(name), start_up=limits.start_up, fewest=limits.fewest_updates)
    # Half a version: of a lag near 0 a share says nothing.
    if found is None or found.rank < limits.monotone or found.late < found.early + 0.5:
        return []
    severity = above(found.late / max(found.early, 0.5), limits.lag_growth)
    if severity is None:
        return []
    return [
        Finding(
            check="lag creeps up",
            severity=severity,
            what=f"{name} rose from {found.early:.3g} to {found.late:.3g} versions after the start-up",
            evidence={
                "early_versions": found.early,
                "late_versions": found.late,
                "rank_correlation": found.rank,
            },
            n=found.n,
            where=found.where,
            change=log.system.changes.lag,
        )
    ]


def beyond_bound(log: Log, limits: Limits) -> list[Finding]:
    """Lag above the bound that was given, or that the system itself counted."""
    findings = []
    updates, violations = log.column("violations")
    if (violations > 0).any():
        findings.append(
            Finding(
                check="lag beyond the bound",
                severity="warning",
                what=(
                    f"the system counted rollouts beyond its bound in {(violations > 0).sum()} updates, "
                    "and trained them"
                ),
                evidence={
                    "violations": float(violations.sum()),
                    "share_of_updates": float((violations > 0).mean()),
                },
                n=len(violations),
                where=spell(updates, violations > 0),
                change=log.system.changes.lag,
            )
        )
    if limits.lag_bound is not None:
        name = "lag_max" if log.has("lag_max") else "lag_mean"
        updates, lags = log.column(name)
        over = lags > limits.lag_bound
        if over.any():
            findings.append(
                Finding(
                    check="lag beyond the bound",
                    severity="problem",
                    what=(
                        f"{name} is above the bound of {limits.lag_bound:g} in {over.sum()} of {len(lags)} "
                        "updates"
                    ),
                    evidence={"bound_versions": limits.lag_bound, "worst_versions": float(lags.max())},
                    n=len(lags),
                    where=spell(updates, over),
                    change=log.system.changes.lag,
                )
            )
    return findings


CHECKS: Final = (
    Check(
        name="lag creeps up",
        question="does the data get older?",
        needs=(("lag_mean",), ("lag_max",)),
        find=creeping,
    ),
    Check(
        name="lag beyond the bound",
        question="is the lag within its bound?",
        needs=((BOUND, "lag_max"), (BOUND, "lag_mean"), ("violations",)),
        find=beyond_bound,
    ),
)
