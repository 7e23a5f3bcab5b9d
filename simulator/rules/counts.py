"""What may a rule look at? Counts only: no clock, no queue, no identity of a rollout."""

from __future__ import annotations

from dataclasses import dataclass
from typing import final


@final
@dataclass(frozen=True, slots=True, kw_only=True)
class Counts:
    """The state of a pipeline, in rollouts and in batches."""

    submitted_rollouts: int
    """Started and not dropped: running, waiting, queued, in training or trained. In AReaL's words,
    accepted + running."""
    running_rollouts: int
    """Decoding now."""
    outstanding_rollouts: int
    """Started, not dropped, and not yet taken by the trainer: running, waiting or queued."""
    waiting_rollouts: int
    """Finished, their group is not."""
    queued_rollouts: int
    trained_rollouts: int
    """Their update is done."""
    submitted_since_publish_rollouts: int
    """Started since engines last got weights, dropped ones included."""
    outstanding_at_publish_rollouts: int
    """`outstanding_rollouts` at the moment when engines last got weights; 0 before the first."""
    taken_batches: int
    """Batches that the trainer has taken, the one in training included."""
    engine_version_batches: int
    """Batches behind the weights that a *starting engine* holds. It trails the trainer's version while
    a push is under way; a rule that looked at the trainer's would let rollouts be born stale."""
    trainer_version_batches: int
    """Batches behind the trainer's own weights."""
    batch_rollouts: int
