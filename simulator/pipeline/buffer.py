"""Between engines and trainer: a group waits for its slowest member, then queues first in, first out."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable
from typing import TypeAlias, final

import simpy

from simulator.ledger import Ledger
from simulator.pipeline.rollout import Rollout
from simulator.rules.eviction import AgeLimit, Overflow

Drop: TypeAlias = Callable[[Rollout, str], None]
"""What to do with a rollout that is thrown away, and why it is."""


CompleteGroup: TypeAlias = list[Rollout]
"""The rollouts of one prompt, by member."""


@final
class Buffer:
    """The group barrier and the queue."""

    def __init__(
        self,
        env: simpy.Environment,
        *,
        group_size: int,
        batch_rollouts: int,
        age_limit: AgeLimit,
        overflow: Overflow,
        ledger: Ledger,
        on_drop: Drop,
    ) -> None:
        self.env = env
        self.group_size = group_size
        self.batch_rollouts = batch_rollouts
        self.age_limit = age_limit
        self.overflow = overflow
        self.ledger = ledger
        self.on_drop = on_drop
        self.incomplete: dict[int, list[Rollout]] = {}
        self.queue: deque[CompleteGroup] = deque()
        self.queued_rollouts = 0
        self.taken_batches = 0
        self._trainer: simpy.Event | None = None

    def add(self, rollout: Rollout) -> None:
        """A rollout finished: keep it until its group is complete, then queue the group."""
        self.ledger.move("in_flight", "waiting", 1, rollout.action_tokens)
        members = self.incomplete.setdefault(rollout.group_id, [])
        members.append(rollout)
        if len(members) == self.group_size:
            del self.incomplete[rollout.group_id]
            self._enqueue(members)

    def _enqueue(self, group: CompleteGroup) -> None:
        group.sort(key=_member)
        now_s = self.env.now
        tokens = 0
        for rollout in group:
            rollout.enqueued_s = now_s
            tokens += rollout.action_tokens
        self.ledger.move("waiting", "queued", len(group), tokens)
        self.queue.append(group)
        self.queued_rollouts += len(group)
        if self._trainer is None:
            self._trim()
        elif self.queued_rollouts >= self.batch_rollouts and not self._trainer.triggered:
            # The trainer takes at this instant, so what overflows is judged when it has: see `take`.
            self._trainer.succeed()

    def batch_may_be_ready(self) -> simpy.Event:
        """Succeeds once enough rollouts for a batch are queued. One trainer waits at a time."""
        self._trainer = simpy.Event(self.env)
        return self._trainer

    def take(self, version: int, rollouts_per_update: int) -> list[Rollout] | None:
        """The oldest batch, or None if there is none yet; what is too old on the way is dropped.

        Group by group in order of arrival. What update j of the batch will train is judged by the lag that
        it will have there, counted from `version + j`.
        """
        self._trainer = None
        batch: list[Rollout] = []
        kept: list[CompleteGroup] = []
        while self.queue and len(batch) < self.batch_rollouts:
            group = self._pop()
            trained_at_version = version + len(batch) // rollouts_per_update
            if self.age_limit(trained_at_version - min(map(_oldest, group))):
                self._drop(group, "too_old")
                continue
            kept.append(group)
            batch += group
        if len(batch) < self.batch_rollouts:
            self.queue.extendleft(reversed(kept))
            self.queued_rollouts += len(batch)
            return None
        self.taken_batches += 1
        for rollout in batch:
            rollout.consumed_s = self.env.now
        self.ledger.move("queued", "training", len(batch), sum(map(_tokens, batch)))
        self._trim()
        return batch

    def _trim(self) -> None:
        excess = self.overflow(self.queued_rollouts)
        while excess > 0:
            group = self._pop()
            self._drop(group, "queue_full")
            excess -= len(group)

    def _pop(self) -> CompleteGroup:
        group = self.queue.popleft()
        self.queued_rollouts -= len(group)
        return group

    def _drop(self, group: CompleteGroup, reason: str) -> None:
        self.ledger.drop("queued", reason, len(group), sum(map(_tokens, group)))
        for rollout in group:
            self.on_drop(rollout, reason)


def _member(rollout: Rollout) -> int:
    return rollout.member


def _tokens(rollout: Rollout) -> int:
    return rollout.action_tokens


def _oldest(rollout: Rollout) -> int:
    return rollout.oldest_version
