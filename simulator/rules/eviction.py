"""Which finished rollouts are thrown away, and when?

By age, as the trainer takes them; or by number, as the queue overflows. Either way whole groups go: a
group that lost one member would have another baseline.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TypeAlias

AgeLimit: TypeAlias = Callable[[int], bool]
"""Lag of a group's oldest token, in updates, when its training would start -> throw the group away?"""

Overflow: TypeAlias = Callable[[int], int]
"""Rollouts in the queue -> how many of them, oldest first, are too many."""


def keep_all(lag_updates: int) -> bool:  # noqa: ARG001 - a rule takes the lag, this one ignores it
    """Train on everything, however old."""
    return False


def drop_by_age(max_lag_updates: int) -> AgeLimit:
    """Throw away what is *more* than `max_lag_updates` old: reject iff lag > max.

    The age is that of the oldest token, counted to the start of training, so time spent in the queue
    counts too. It bounds every lag and shortens what is trained: long rollouts are dropped more often.

    References:
        Judging a mixed rollout by its newest token: https://github.com/verl-project/verl/issues/7569.
        Off by one: https://github.com/PrimeIntellect-ai/prime-rl/pull/1901.
        Forgetting the queue: https://github.com/PrimeIntellect-ai/prime-rl/pull/3009.
    """
    if max_lag_updates < 0:
        raise ValueError(f"max_lag_updates must be at least 0, got {max_lag_updates}")

    def too_old(lag_updates: int) -> bool:
        return lag_updates > max_lag_updates

    return too_old


def never_overflows(queued_rollouts: int) -> int:  # noqa: ARG001 - a rule takes the number, this one ignores it
    """The queue has no end."""
    return 0


def drop_oldest_beyond(capacity_rollouts: int) -> Overflow:
    """Throw away the oldest when more than `capacity_rollouts` are queued.

    Unlike an age limit it does not change how long the trained rollouts are.
    """
    if capacity_rollouts < 1:
        raise ValueError(f"capacity_rollouts must be at least 1, got {capacity_rollouts}")

    def excess(queued_rollouts: int) -> int:
        return max(0, queued_rollouts - capacity_rollouts)

    return excess
