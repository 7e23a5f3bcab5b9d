"""How many tokens lose their gradient, more and more of them, on one side, or of one sign only?"""

from __future__ import annotations

from typing import Final

from analysis.audit.checks.grade import above, worse
from analysis.audit.finding import Check, Finding
from analysis.audit.limits import Limits
from analysis.audit.log import Log
from analysis.audit.trend import level, trend

_GROWTH: Final = 2.0
"""Late over early share from which on it grows. *Choice*."""
_ENOUGH: Final = 0.05
"""Share below which neither growth nor a side matters. *Choice*."""
_ONE_SIDED: Final = 10.0
"""Share of one side over the other's from which on it is one-sided. *Choice*."""

_SIDES: Final = {
    ("low", "high"): {"low": "where the ratio fell", "high": "where the ratio rose"},
    ("negative", "positive"): {
        "negative": "where the advantage is negative",
        "positive": "where the advantage is positive",
    },
}


def without_gradient(log: Log, limits: Limits) -> list[Finding]:
    """Level and trend of what is clipped or masked, and its sides."""
    found = []
    for name, stem in (("clip_fraction", "clip"), ("masked_fraction", "masked")):
        updates, values = log.column(name)
        if not len(values):
            continue
        now = level(values)
        went = trend(updates, values, start_up=limits.start_up, fewest=limits.fewest_updates)
        grows = (
            went is not None
            and went.rank >= limits.monotone
            and went.late >= max(_ENOUGH, _GROWTH * went.early)
        )
        severity = worse(above(now, limits.clipped), "warning" if grows else None)
        if severity is None:
            continue
        evidence = {"last_quarter": now}
        said = f"{name} is {now:.1%}"
        if grows and went is not None:
            evidence |= {"early": went.early, "late": went.late}
            said += f", from {went.early:.1%} early on"
        for pair in _SIDES:
            columns = {side: log.column(f"{stem}_{side}")[1] for side in pair}
            parts = {side: level(values) for side, values in columns.items() if len(values)}
            evidence |= parts
            if len(parts) == 2 and max(parts.values()) >= max(_ENOUGH, _ONE_SIDED * min(parts.values())):
                said += f"; nearly all of it is {_SIDES[pair][max(parts, key=lambda side: parts[side])]}"
        if stem == "clip" and log.has("clip_dual"):
            evidence["dual"] = level(log.column("clip_dual")[1])
        found.append(
            Finding(
                check="clipped and masked",
                severity=severity,
                what=said,
                evidence=evidence,
                n=len(values),
                where=went.where if grows and went is not None else None,
                change=log.system.changes.clipping,
            )
        )
    return found


CHECKS: Final = (
    Check(
        name="clipped and masked",
        question="how many tokens lose their gradient?",
        needs=(("clip_fraction",), ("masked_fraction",)),
        find=without_gradient,
    ),
)
