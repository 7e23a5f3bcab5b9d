"""Between engines and trainer: a group waits for its slowest member, then queues until it is taken."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable
from typing import final

import simpy

from simulator.ledger import Ledger
from simulator.pipeline.group_queue import Drop, Group, GroupQueue
from simulator.pipeline.rollout import Rollouts
from simulator.pipeline.unfinished import Unfinished
from simulator.rules.eviction import AgeLimit, Overflow, never_overflows
from simulator.rules.selection import Selection, fifo


def _nobody_holds(slots: int) -> None:
    """The queue refuses nobody."""


@final
class Buffer(GroupQueue):
    """The group barrier, and the queue behind it: see `GroupQueue`.

    Args:
        blocks_beyond: capacity of a queue that refuses groups while it is full; None if it never does.
        hold: told of slots that stay free from now on, since their groups wait for room, or need no more.
    """

    def __init__(
        self,
        env: simpy.Environment,
        *,
        table: Rollouts,
        rollouts_per_update: int,
        updates_per_batch: int,
        selection: Selection,
        age_limit: AgeLimit,
        overflow: Overflow,
        ledger: Ledger,
        on_drop: Drop,
        unfinished: Unfinished,
        asked_again: Callable[[], list[int]],
        uniform: Callable[[], float],
        blocks_beyond: int | None = None,
        hold: Callable[[int], None] = _nobody_holds,
    ) -> None:
        super().__init__(
            table=table,
            rollouts_per_update=rollouts_per_update,
            updates_per_batch=updates_per_batch,
            selection=selection,
            age_limit=age_limit,
            overflow=overflow,
            ledger=ledger,
            on_drop=on_drop,
            unfinished=unfinished,
            asked_again=asked_again,
            uniform=uniform,
        )
        self.env = env
        self.blocks_beyond = blocks_beyond
        self.hold = hold
        self.held: deque[Group] = deque()
        """Complete, and no room in the queue."""
        self.incomplete: dict[int, list[int]] = {}
        self._trainer: simpy.Event | None = None

    def add(self, rollout_id: int) -> None:
        """A rollout finished: keep it until its group is complete, then queue the group."""
        table = self.table
        tokens = table.tokens[rollout_id]
        group: Group
        if table.group_size == 1 and self.blocks_beyond is None:
            self.ledger.move("in_flight", "queued", 1, tokens)
            group = (rollout_id,)
        else:
            self.ledger.move("in_flight", "waiting", 1, tokens)
            prompt = table.place[rollout_id] // table.group_size
            members = self.incomplete.setdefault(prompt, [])
            members.append(rollout_id)
            if len(members) < table.group_size:
                return
            del self.incomplete[prompt]
            members.sort(key=table.place.__getitem__)
            group = members
            if self._is_held(group):
                return
            self.ledger.move("waiting", "queued", len(members), self.tokens(members))
        self._enqueue(group)

    def pad(self, prompt: int) -> int:
        """Queue an incomplete group, its members repeated in turn until it is whole: by how many copies."""
        members = sorted(self.incomplete.pop(prompt), key=self.table.place.__getitem__)
        copies = self.table.group_size - len(members)
        group = [*members, *(members[i % len(members)] for i in range(copies))]
        self.copies.move(None, "queued", copies)
        self.table.ready_s.update(dict.fromkeys(members, self.env.now))
        if not self._is_held(group):
            self.ledger.move("waiting", "queued", len(members), self.tokens(members))
            self._enqueue(group)
        return copies

    def not_queued(self) -> list[int]:
        """Rollouts that have finished and are in no queue."""
        waiting = [i for members in self.incomplete.values() for i in members]
        return waiting + [i for group in self.held for i in self.copies.distinct(group)]

    def _is_held(self, group: Group) -> bool:
        """If there is no room for it, the group waits outside the queue."""
        if self.blocks_beyond is None:
            return False
        if not self.held and self.queued_rollouts + len(group) <= self.blocks_beyond:
            return False
        self.held.append(group)
        self.hold(1)
        return True

    def _let_in(self) -> bool:
        """Groups that were held come into the queue, first come, first served: is there one that did?"""
        some = False
        while (
            self.held
            and self.blocks_beyond is not None
            and self.queued_rollouts + len(self.held[0]) <= self.blocks_beyond
        ):
            group = self.held.popleft()
            members = self.copies.distinct(group)
            self.ledger.move("waiting", "queued", len(members), self.tokens(members))
            self.table.entered_s.update(dict.fromkeys(members, self.env.now))
            self.hold(-1)
            self._enqueue(group)
            some = True
        return some

    def _enqueue(self, group: Group) -> None:
        self.queue.append(group)
        self.queued_rollouts += len(group)
        if self.selection is not fifo:
            self._consider(group)
        if self._trainer is None:
            if self.overflow is not never_overflows:
                self._trim()
        elif self.queued_rollouts >= self.batch_rollouts and not self._trainer.triggered:
            # The trainer takes at this instant, so what overflows is judged when it has: see `take`.
            self._trainer.succeed()

    def batch_may_be_ready(self) -> simpy.Event:
        """Succeeds once enough rollouts for a batch are queued. One trainer waits at a time."""
        self._trainer = simpy.Event(self.env)
        return self._trainer

    def look_again(self) -> None:
        """What a selection may look at changed without a group being queued."""
        if self.selection is not fifo and self._trainer is not None and not self._trainer.triggered:
            self._trainer.succeed()

    def take(self, version: int) -> list[int] | None:
        """The next batch, or None if there is none yet; what is too old on the way is dropped.

        What update j of the batch will train is judged by the lag that it will have there, counted from
        `version + j`.
        """
        self._trainer = None
        groups = self._take(version)
        while groups is None and self._let_in():  # what was too old made room
            groups = self._take(version)
        batch = None
        if groups is not None:
            batch = [rollout_id for group in groups for rollout_id in group]
            self.taken_batches += 1
            rollouts = self.copies.distinct(batch)
            self.copies.move("queued", "training", len(batch) - len(rollouts))
            self.ledger.move("queued", "training", len(rollouts), self.tokens(rollouts))
            self.ledger.check()
        self._let_in()
        self._trim()
        return batch

    def is_away(self) -> None:
        """The trainer, which asked for a batch, cannot take it yet."""
        self._trainer = None
        self._trim()
