"""Between engines and trainer: a group waits for its slowest member, then queues until it is chosen."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Sequence
from typing import TypeAlias, final

import simpy

from simulator.ledger import Ledger
from simulator.pipeline.copies import Copies
from simulator.pipeline.rollout import Rollouts
from simulator.rules.eviction import AgeLimit, Overflow, keep_all, never_overflows
from simulator.rules.selection import Candidate, Selection, Take, fifo

Group: TypeAlias = Sequence[int]
"""The rollouts of one prompt, by member."""

Drop: TypeAlias = Callable[[Group, str], None]
"""What to do with a complete group that is thrown away, and why it is."""


def _nobody_holds(slots: int) -> None:
    """The queue refuses nobody."""


@final
class Buffer:
    """The group barrier and the queue.

    Args:
        unfinished: what a selection may know of groups that are not complete, as in `Take`: the version that
            the oldest started with, and their submitted indices.
        uniform: random numbers for a selection.
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
        unfinished: Callable[[], tuple[int | None, list[int]]],
        uniform: Callable[[], float],
        blocks_beyond: int | None = None,
        hold: Callable[[int], None] = _nobody_holds,
    ) -> None:
        self.env = env
        self.table = table
        self.rollouts_per_update = rollouts_per_update
        self.updates_per_batch = updates_per_batch
        self.batch_rollouts = rollouts_per_update * updates_per_batch
        self.selection = selection
        self.age_limit = age_limit
        self.overflow = overflow
        self.ledger = ledger
        self.on_drop = on_drop
        self.unfinished = unfinished
        self.uniform = uniform
        self.blocks_beyond = blocks_beyond
        self.hold = hold
        self.held: deque[Group] = deque()
        """Complete, and no room in the queue."""
        self.copies = Copies()
        self.incomplete: dict[int, list[int]] = {}
        self.queue: deque[Group] = deque()
        self.candidates: deque[Candidate] = deque()
        """One for each group in the queue, for a selection that asks."""
        self.queued_rollouts = 0
        self.taken_batches = 0
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

    def queued(self) -> list[int]:
        return [i for group in self.queue for i in self.copies.distinct(group)]

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
            self.candidates.append(self._candidate(group))
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
        groups = self._first(version) if self.selection is fifo else self._chosen(version)
        while groups is None and self._let_in():  # what was too old made room
            groups = self._first(version) if self.selection is fifo else self._chosen(version)
        batch = None
        if groups is not None:
            batch = [rollout_id for group in groups for rollout_id in group]
            self.taken_batches += 1
            rollouts = self.copies.distinct(batch)
            self.copies.move("queued", "training", len(batch) - len(rollouts))
            self.ledger.move("queued", "training", len(rollouts), self.tokens(rollouts))
        self._let_in()
        self._trim()
        return batch

    def is_away(self) -> None:
        """The trainer, which asked for a batch, cannot take it yet."""
        self._trainer = None
        self._trim()

    def tokens(self, rollout_ids: Sequence[int]) -> int:
        return sum(map(self.table.tokens.__getitem__, rollout_ids))

    def _first(self, version: int) -> list[Group] | None:
        """First in, first out."""
        if self.age_limit is keep_all:
            if self.queued_rollouts < self.batch_rollouts:
                return None
            self.queued_rollouts -= self.batch_rollouts
            groups = self.batch_rollouts // self.table.group_size
            return [self.queue.popleft() for _ in range(groups)]
        kept: list[Group] = []
        rollouts = 0
        while self.queue and rollouts < self.batch_rollouts:
            group = self._pop()
            if self._is_too_old(group, version + rollouts // self.rollouts_per_update):
                self._drop(group, "too_old")
                continue
            kept.append(group)
            rollouts += len(group)
        if rollouts == self.batch_rollouts:
            return kept
        self.queue.extendleft(reversed(kept))
        self.queued_rollouts += rollouts
        return None

    def _chosen(self, version: int) -> list[Group] | None:
        """Whatever the rule says, of what is not too old."""
        old = [i for i, group in enumerate(self.queue) if self._is_too_old(group, version)]
        while True:
            for group in self._extract(old):
                self._drop(group, "too_old")
            if self.queued_rollouts < self.batch_rollouts:
                return None
            places = self.selection(list(self.candidates), self._question(version))
            if places is None:
                return None
            groups = [self.queue[i] for i in places]
            starts = [i * self.table.group_size for i in range(len(groups))]
            if len(set(places)) != len(groups) or sum(map(len, groups)) != self.batch_rollouts:
                raise ValueError(f"selection chose {list(places)}: not {self.batch_rollouts} rollouts")
            old = [
                place
                for place, group, start in zip(places, groups, starts, strict=True)
                if self._is_too_old(group, version + start // self.rollouts_per_update)
            ]
            if not old:
                self._extract(places)
                return groups

    def _question(self, version: int) -> Take:
        oldest_version, unfinished = self.unfinished()
        return Take(
            batch_rollouts=self.batch_rollouts,
            version=version,
            taken_batches=self.taken_batches,
            updates_per_batch=self.updates_per_batch,
            oldest_running_version=oldest_version,
            unfinished_indices=unfinished,
            uniform=self.uniform,
        )

    def _candidate(self, group: Group) -> Candidate:
        table = self.table
        return Candidate(
            submitted_index=table.place[group[0]] // table.group_size,
            oldest_version=min(map(table.oldest_version, group)),
            newest_version=max(table.segments(rollout_id)[-1].version for rollout_id in group),
            rollouts=len(group),
        )

    def _is_too_old(self, group: Group, version: int) -> bool:
        if self.age_limit is keep_all:
            return False
        return self.age_limit(version - min(map(self.table.oldest_version, group)))

    def _extract(self, places: Sequence[int]) -> list[Group]:
        """Take the groups at `places` out of the queue."""
        if not places:
            return []
        out = set(places)
        groups = [self.queue[i] for i in places]
        self.queue = deque(group for i, group in enumerate(self.queue) if i not in out)
        self.candidates = deque(c for i, c in enumerate(self.candidates) if i not in out)
        self.queued_rollouts -= sum(map(len, groups))
        return groups

    def _trim(self) -> None:
        excess = self.overflow(self.queued_rollouts)
        while excess > 0:
            group = self._pop()
            self._drop(group, "queue_full")
            excess -= len(group)

    def _pop(self) -> Group:
        group = self.queue.popleft()
        if self.candidates:
            self.candidates.popleft()
        self.queued_rollouts -= len(group)
        return group

    def _drop(self, group: Group, reason: str) -> None:
        rollouts = self.copies.distinct(group)
        self.copies.move("queued", None, len(group) - len(rollouts))
        self.ledger.drop("queued", reason, len(rollouts), self.tokens(rollouts))
        self.on_drop(rollouts, reason)
