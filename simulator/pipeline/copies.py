"""Where are the copies that fill up padded groups?

A copy is a rollout that a group names twice. It takes a place in the queue and in a batch, and costs the
trainer time; it is not generated, so the ledger and the log know nothing of it.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import final


@final
class Copies:
    """Numbers of copies by state; rollouts without them."""

    def __init__(self) -> None:
        self.exist = False
        self.queued = 0
        self.training = 0
        self.trained = 0

    @property
    def kept(self) -> int:
        return self.queued + self.training + self.trained

    def distinct(self, rollout_ids: Sequence[int]) -> Sequence[int]:
        """Each rollout once."""
        return list(dict.fromkeys(rollout_ids)) if self.exist else rollout_ids

    def move(self, source: str | None, target: str | None, copies: int) -> None:
        """From one of queued, training and trained to the next; None is nowhere."""
        if copies:
            self.exist = True
            if source is not None:
                setattr(self, source, getattr(self, source) - copies)
            if target is not None:
                setattr(self, target, getattr(self, target) + copies)
