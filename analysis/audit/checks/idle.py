"""Who waits for whom?"""

from __future__ import annotations

from typing import Final

import numpy as np

from analysis.audit.checks.grade import above
from analysis.audit.finding import Check, Finding
from analysis.audit.limits import Limits
from analysis.audit.log import Log


def waiting(log: Log, limits: Limits) -> list[Finding]:
    """Mean share of a step that each side waits, after the start-up."""
    found = []
    changes = log.system.changes
    for name, who, change in (
        ("trainer_idle_share", "the trainer waits for data", changes.starving),
        ("engine_idle_share", "the engines wait", changes.waiting),
    ):
        updates, values = log.column(name)
        if len(values) < 2:
            continue
        begin = int(limits.start_up * len(values))
        share = float(np.mean(values[begin:]))
        severity = above(share, limits.idle)
        if severity is not None:
            found.append(
                Finding(
                    check="idle",
                    severity=severity,
                    what=f"{who} {share:.0%} of the time",
                    evidence={name: share},
                    n=len(values) - begin,
                    where=(float(updates[begin]), float(updates[-1])),
                    change=change,
                )
            )
    return found


CHECKS: Final = (
    Check(
        name="idle",
        question="who waits for whom?",
        needs=(("trainer_idle_share",), ("engine_idle_share",)),
        find=waiting,
    ),
)
