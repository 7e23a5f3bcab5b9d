"""What must a system's rule know of the pipeline that it governs?"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import final

from simulator.rules.eviction import AgeLimit, drop_by_age


@final
@dataclass(frozen=True, slots=True, kw_only=True)
class Shape:
    """Sizes that systems state their limits in.

    Raises:
        ValueError: a size below one, or batches that do not hold whole groups.
    """

    batch_rollouts: int
    """What the trainer takes at once."""
    group_size: int = 1
    updates_per_batch: int = 1
    batches_per_push: int = 1
    slots: int = 1
    """Rollouts that decode at once, over all engines."""

    def __post_init__(self) -> None:
        for name in ("batch_rollouts", "group_size", "updates_per_batch", "batches_per_push", "slots"):
            if getattr(self, name) < 1:
                raise ValueError(f"{name} must be at least 1, got {getattr(self, name)}")
        if self.batch_rollouts % self.group_size:
            raise ValueError(
                f"batch_rollouts ({self.batch_rollouts}) is not a multiple of group_size ({self.group_size})"
            )

    @property
    def updates_per_push(self) -> int:
        return self.updates_per_batch * self.batches_per_push

    @property
    def rollouts_per_push(self) -> int:
        return self.batch_rollouts * self.batches_per_push


def older_than_batches(age_batches: int, shape: Shape) -> AgeLimit:
    """Too old iff the group started *more* than `age_batches` batches before the one that would train it.

    The j-th update of a batch adds j updates to a lag and no batch.
    """
    return drop_by_age((age_batches + 1) * shape.updates_per_batch - 1)


def older_than_pushes(age_pushes: int, shape: Shape) -> AgeLimit:
    """Too old iff engines had been given new weights *more* than `age_pushes` times since the group started.

    Counted when the trainer takes it; the updates since the last push count for nothing.
    """
    return drop_by_age((age_pushes + 1) * shape.updates_per_push - 1)


def whole_groups(rollouts: float, shape: Shape) -> int:
    """The largest number of rollouts, up to this, that makes whole groups."""
    return math.floor(rollouts / shape.group_size + 1e-9) * shape.group_size
