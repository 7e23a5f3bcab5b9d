"""Is the reward where it belongs, and does it tell one rollout from another?"""

from __future__ import annotations

from typing import Final

import numpy as np

from analysis.audit.checks.grade import above
from analysis.audit.finding import Check, Finding
from analysis.audit.limits import Limits
from analysis.audit.log import Log

_UPDATES: Final = 10
"""Equal rewards that are no accident. *Choice*."""


def misplaced(log: Log, limits: Limits) -> list[Finding]:
    """A sparse reward belongs on the last token that the loss counts; elsewhere it is lost."""
    n, elsewhere = log.strange.rewarded, log.strange.reward_elsewhere
    share = elsewhere / n
    severity = above(share, limits.misplaced)
    if severity is None:
        return []
    return [
        Finding(
            check="reward on the wrong token",
            severity=severity,
            what=(
                f"in {elsewhere} of {n} rollouts the last reward is not on the last token that the loss "
                "counts"
            ),
            evidence={"share": share},
            n=n,
            of="rollouts",
            change="put the reward on the last token with a loss mask of 1, before padding and observations",
        )
    ]


def constant(log: Log, _limits: Limits) -> list[Finding]:
    """One reward for everything."""
    updates, means = log.column("reward_mean")
    if len(means) < _UPDATES or np.ptp(means) > 0:
        return []
    spreads = [log.column("reward_std")[1], log.column("reward_max")[1] - log.column("reward_min")[1]]
    if any((spread > 0).any() for spread in spreads if len(spread)):
        return []
    return [
        Finding(
            check="constant reward",
            severity="problem",
            what=f"the mean reward is {means[0]:g} in all {len(means)} updates",
            evidence={"reward_mean": float(means[0])},
            n=len(means),
            where=(float(updates[0]), float(updates[-1])),
            change=(
                "look at what the reward function gets: a parser that never matches gives one value for "
                "everything"
            ),
        )
    ]


CHECKS: Final = (
    Check(
        name="reward on the wrong token",
        question="is the reward on the last counted token?",
        needs=(("token rewards",),),
        find=misplaced,
    ),
    Check(
        name="constant reward",
        question="does the reward tell rollouts apart?",
        needs=(("reward_mean",),),
        find=constant,
    ),
)
