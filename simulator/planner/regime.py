"""What holds the pipeline back, in one sentence?"""

from __future__ import annotations

from typing import Final, Literal, TypeAlias

Regime: TypeAlias = Literal["synchronous best", "rollout-bound", "train-bound", "barrier-bound", "balanced"]

LITTLE_IDLE: Final = 0.1
"""A side that idles less is busy (*choice*)."""

SENTENCES: Final[dict[Regime, str]] = {
    "synchronous best": "Synchronous best: taking turns on all GPUs is within 5 % of the fastest split, or"
    " ahead of it, and its data is fresh.",
    "rollout-bound": "Rollout-bound: the trainer waits for data; more GPUs or more rollouts in flight belong"
    " to the engines.",
    "train-bound": "Train-bound: the engines wait, or work in vain, for the trainer; it needs more GPUs.",
    "barrier-bound": "Barrier-bound: both sides wait, for the slowest of a group or for the staleness bound;"
    " smaller groups or a wider bound help, more GPUs do not.",
    "balanced": "Balanced: neither side waits for long.",
}


def regime(*, synchronous: bool, trainer_idle: float, slots_idle: float, dropped: float) -> Regime:
    """The regime of the best setting.

    Args:
        synchronous: whether it takes turns on all GPUs.
        trainer_idle: share of its time.
        slots_idle: share of slot time.
        dropped: share of rollouts made in vain; engines that make them are as good as idle.
    """
    if synchronous:
        return "synchronous best"
    trainer_waits = trainer_idle > LITTLE_IDLE
    engines_wait = 1 - (1 - slots_idle) * (1 - dropped) > LITTLE_IDLE
    if trainer_waits and engines_wait:
        return "barrier-bound"
    if trainer_waits:
        return "rollout-bound"
    return "train-bound" if engines_wait else "balanced"
