"""Did learning break, or does it look like breaking?"""

from __future__ import annotations

from typing import Final

import numpy as np

from analysis.audit.checks.grade import spell
from analysis.audit.finding import Check, Finding
from analysis.audit.limits import Limits
from analysis.audit.log import Log
from analysis.audit.trend import running_median, trend
from analysis.measures.collapse import Criteria, first_fall

_WINDOW: Final = 20
"""Updates of a running median. *Choice*."""


def broken(log: Log, limits: Limits) -> list[Finding]:
    """Reward below a share of its running maximum, for long.

    Rewards that can be negative are counted from the smallest mean, as a share of a negative number is none.
    """
    updates, rewards = log.column("reward_mean")
    if len(rewards) < limits.fewest_updates or not np.abs(rewards).max() < np.inf:
        return []
    above_floor = rewards - min(0.0, float(rewards.min()))
    best = float(above_floor.max())
    if best <= 0:
        return []
    lasting = max(limits.collapse_updates, len(rewards) // 10)
    # By place, not by number: some systems log every tenth update.
    places = np.arange(len(rewards), dtype=float)
    criteria = Criteria(
        target=1.0, chance=0.0, collapse_share=limits.collapse_share, collapse_window_updates=lasting
    )
    fell = first_fall(places, above_floor / best, criteria)
    if fell is None:
        return []
    at = int(fell)
    peak = float(rewards[: at + 1].max())
    worst = float(rewards[at:].min())
    return [
        Finding(
            check="collapse",
            severity="problem",
            what=(
                f"the reward fell from {peak:.3g} and stayed below {limits.collapse_share:g} of it, down "
                f"to {worst:.3g}"
            ),
            evidence={"best_before": peak, "worst_after": worst, "fell_at_update": float(updates[at])},
            n=len(rewards),
            where=(float(updates[at]), float(updates[-1])),
            change=f"{log.system.changes.collapse}; {log.system.changes.lag}",
        )
    ]


def certain_and_worse(log: Log, limits: Limits) -> list[Finding]:
    """Entropy that falls together with the reward."""
    entropy = trend(*log.column("entropy"), start_up=0.0, fewest=limits.fewest_updates)
    reward = trend(*log.column("reward_mean"), start_up=0.0, fewest=limits.fewest_updates)
    if entropy is None or reward is None:
        return []
    _, rewards = log.column("reward_mean")
    best = float(max(block.mean() for block in np.array_split(rewards, 8)))
    falls = entropy.rank <= -limits.monotone and entropy.late <= limits.entropy_fall * entropy.early
    worse = best > 0 and reward.late <= limits.reward_fall * best
    if not (falls and worse):
        return []
    return [
        Finding(
            check="entropy and reward fall",
            severity="warning",
            what=(
                f"the entropy fell from {entropy.early:.3g} to {entropy.late:.3g} nats while the reward "
                "fell from "
                f"{best:.3g} to {reward.late:.3g}"
            ),
            evidence={
                "entropy_early": entropy.early,
                "entropy_late": entropy.late,
                "reward_best": best,
                "reward_late": reward.late,
            },
            n=entropy.n,
            where=entropy.where,
            change=log.system.changes.collapse,
        )
    ]


def spikes(log: Log, limits: Limits) -> list[Finding]:
    """Gradient norms far above their running median."""
    updates, norms = log.column("grad_norm")
    if len(norms) < limits.fewest_updates:
        return []
    usual = running_median(norms, _WINDOW)
    with np.errstate(invalid="ignore"):
        # The first few have no median to speak of.
        far = (norms > limits.spike * usual) & (usual > 0) & (np.arange(len(norms)) >= _WINDOW // 4)
    share = float(far.mean())
    if share <= limits.spikes[0]:
        return []
    worst = int(np.argmax(np.where(far, norms / np.where(usual > 0, usual, np.inf), 0.0)))
    return [
        Finding(
            check="gradient spikes",
            severity="problem" if share > limits.spikes[1] else "warning",
            what=(
                f"in {far.sum()} updates the gradient norm is over {limits.spike:g} times its running "
                "median, at worst "
                f"{norms[worst]:.3g} against {usual[worst]:.3g}"
            ),
            evidence={"share": share, "worst": float(norms[worst]), "usual": float(usual[worst])},
            n=len(norms),
            where=spell(updates, far),
            change=log.system.changes.collapse,
        )
    ]


CHECKS: Final = (
    Check(name="collapse", question="did learning break?", needs=(("reward_mean",),), find=broken),
    Check(
        name="entropy and reward fall",
        question="does the policy get certain and worse?",
        needs=(("entropy", "reward_mean"),),
        find=certain_and_worse,
    ),
    Check(
        name="gradient spikes", question="are there gradient spikes?", needs=(("grad_norm",),), find=spikes
    ),
)
