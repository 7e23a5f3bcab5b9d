"""Do counters only go on, is everything there once, and are all numbers numbers?"""

from __future__ import annotations

from typing import Final

import numpy as np

from analysis.audit.checks.grade import above, spell
from analysis.audit.finding import Check, Finding
from analysis.audit.limits import Limits
from analysis.audit.log import Log

_FATAL: Final = frozenset({"loss", "grad_norm", "reward_mean", "kl_k1", "kl_k3", "kl_update", "entropy"})
"""Where NaN is a problem and not only a hole."""


def went_back(log: Log, _limits: Limits) -> list[Finding]:
    """A version or a step that is smaller than the one before it."""
    found = []
    for counter in ("update", "version"):
        steps = [step for step in log.strange.back if step.counter == counter]
        times = sum(step.times for step in steps)
        if not steps:
            continue
        first = steps[0]
        found.append(
            Finding(
                check="counter reset",
                severity="problem" if counter == "version" else "warning",
                what=(
                    f"the {counter} went back {times} times, first from {first.before:g} to "
                    f"{first.after:g}: "
                    + ("lags across it are wrong" if counter == "version" else "the later rows are used")
                ),
                evidence={"times": float(times), "before": first.before, "after": first.after},
                n=len(log.updates),
                where=(first.after, first.before),
                change=log.system.changes.resume,
            )
        )
    return found


def twice(log: Log, limits: Limits) -> list[Finding]:
    """Values logged again and differing; rollouts copied within an update, or trained by two."""
    found = []
    strange, resume = log.strange, log.system.changes.resume
    if strange.rewritten is not None:
        again = strange.rewritten
        found.append(
            Finding(
                check="duplicates",
                severity="warning",
                what=(
                    f"{again.count} values were logged again for an update that had another; the later "
                    "ones are used"
                ),
                evidence={"values": float(again.count)},
                n=len(log.updates),
                where=(again.first, again.last),
                change=resume,
            )
        )
    if strange.sampled:
        share = strange.trained_again / strange.sampled
        severity = above(share, limits.again)
        if severity is not None:
            found.append(
                Finding(
                    check="duplicates",
                    severity=severity,
                    what=(
                        f"{share:.1%} of the rollouts were there in an earlier update already, word for word"
                    ),
                    evidence={"share": share},
                    n=strange.sampled,
                    of="rollouts",
                    change="use each rollout once, or say how often it may be used; " + resume,
                )
            )
    updates, copies = log.column("repeated_share")
    if len(copies):
        share = float(np.mean(copies))
        severity = above(share, limits.repeated)
        if severity is not None:
            found.append(
                Finding(
                    check="duplicates",
                    severity=severity,
                    what=f"{share:.0%} of the rollouts are exact copies of another one of the same update",
                    evidence={"share": share},
                    n=len(copies),
                    where=(float(updates[0]), float(updates[-1])),
                    change=(
                        "sample with a temperature and a seed for each rollout; a policy this certain "
                        "explores nothing"
                    ),
                )
            )
    return found


def not_numbers(log: Log, _limits: Limits) -> list[Finding]:
    """NaN or infinity where a number was recorded, and updates that were refused."""
    found = [
        Finding(
            check="numbers",
            severity="problem" if name in _FATAL else "warning",
            what=f"{name} is NaN or infinite {seen.count} times",
            evidence={"times": float(seen.count)},
            n=len(log.updates),
            where=(seen.first, seen.last),
            change=log.system.changes.collapse,
        )
        for name, seen in sorted(log.strange.not_finite.items())
    ]
    updates, refused = log.column("refused")
    if (refused > 0).any():
        found.append(
            Finding(
                check="numbers",
                severity="problem",
                what=f"{(refused > 0).sum()} of {len(refused)} updates were refused",
                evidence={"updates": float((refused > 0).sum())},
                n=len(refused),
                where=spell(updates, refused > 0),
                change=log.system.changes.collapse,
            )
        )
    return found


CHECKS: Final = (
    Check(name="counter reset", question="do counters only go on?", needs=((),), find=went_back),
    Check(name="duplicates", question="is everything there once?", needs=((),), find=twice),
    Check(name="numbers", question="are all numbers numbers?", needs=((),), find=not_numbers),
)
