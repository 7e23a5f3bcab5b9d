"""When may new weights reach the engines, while rollouts are running?"""

from __future__ import annotations

from collections.abc import Callable
from typing import TypeAlias

from simulator.rules.counts import Counts

MayPublish: TypeAlias = Callable[[Counts], bool]


def in_flight(counts: Counts) -> bool:  # noqa: ARG001 - a rule takes the counts, this one ignores them
    """At once: running rollouts carry on under the new weights, keys and values kept."""
    return True


def after_the_batch(counts: Counts) -> bool:
    """When the whole batch after the one in training is generated, and nothing runs."""
    batch_is_started = counts.submitted_rollouts >= (counts.taken_batches + 1) * counts.batch_rollouts
    return batch_is_started and counts.running_rollouts == 0
