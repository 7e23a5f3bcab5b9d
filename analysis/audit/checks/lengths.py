"""Is what is trained shorter than what was generated, and are answers cut off?"""

from __future__ import annotations

from typing import Final

import numpy as np

from analysis.audit.checks.grade import above, below
from analysis.audit.finding import Check, Finding
from analysis.audit.limits import Limits
from analysis.audit.log import Log
from analysis.audit.trend import level


def trained_shorter(log: Log, limits: Limits) -> list[Finding]:
    """Dropping by age drops the long: mean length trained over generated, in tokens or seconds."""
    if log.has("response_length_generated_mean") and log.has("response_length_mean"):
        both = log.updates[["response_length_mean", "response_length_generated_mean"]].dropna()
        n, unit = len(both), "tokens"
        trained, generated = (float(both[name].mean()) for name in both.columns)
    else:
        counts = [log.strange.seconds.get(status, (0.0, 0.0)) for status in ("trained", "dropped")]
        n, unit = int(sum(count for count, _ in counts)), "seconds of generation"
        if counts[0][0] == 0 or counts[1][0] == 0:
            return []
        trained, generated = counts[0][1] / counts[0][0], (counts[0][1] + counts[1][1]) / n
    severity = below(trained / generated, limits.shorter) if generated > 0 else None
    if severity is None:
        return []
    return [
        Finding(
            check="length bias",
            severity=severity,
            what=f"what is trained has {trained:.4g} {unit} on average, what was generated {generated:.4g}",
            evidence={"trained_mean": trained, "generated_mean": generated, "ratio": trained / generated},
            n=n,
            of="updates" if unit == "tokens" else "sessions",
            change=log.system.changes.length_bias,
        )
    ]


def dropped(log: Log, limits: Limits) -> list[Finding]:
    """Share of what was generated that is dropped."""
    updates, values = log.column("dropped_share")
    share = float(np.mean(values))
    severity = above(share, limits.dropped)
    if severity is None:
        return []
    return [
        Finding(
            check="dropped",
            severity=severity,
            what=f"{share:.0%} of what is generated is dropped, which wastes it and shortens what is trained",
            evidence={"dropped_share": share, "last_quarter": level(values)},
            n=len(values),
            where=(float(updates[0]), float(updates[-1])),
            change=log.system.changes.length_bias,
        )
    ]


def cut_off(log: Log, limits: Limits) -> list[Finding]:
    """Share of responses that end at the limit."""
    updates, values = log.column("truncated_share")
    now = level(values)
    severity = above(now, limits.truncated)
    if severity is None:
        return []
    return [
        Finding(
            check="truncated",
            severity=severity,
            what=(
                f"{now:.0%} of the responses are cut at the length limit: their reward is of an unfinished "
                "answer"
            ),
            evidence={"last_quarter": now},
            n=len(values),
            where=(float(updates[0]), float(updates[-1])),
            change=log.system.changes.truncation,
        )
    ]


CHECKS: Final = (
    Check(
        name="length bias",
        question="is what is trained shorter than what is generated?",
        needs=(("response_length_mean", "response_length_generated_mean"), ("seconds of sessions",)),
        find=trained_shorter,
    ),
    Check(name="dropped", question="how much is dropped?", needs=(("dropped_share",),), find=dropped),
    Check(name="truncated", question="are answers cut off?", needs=(("truncated_share",),), find=cut_off),
)
