"""The queue of complete groups: which of them make the next batch, and which are thrown away?"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Sequence
from typing import TypeAlias

from simulator.ledger import Ledger
from simulator.pipeline.copies import Copies
from simulator.pipeline.rollout import Rollouts
from simulator.rules.eviction import AgeLimit, Overflow, keep_all
from simulator.rules.selection import Candidate, Selection, Take, fifo

Group: TypeAlias = Sequence[int]
"""The rollouts of one prompt, by member."""

Drop: TypeAlias = Callable[[Group, str], None]
"""What to do with a complete group that is thrown away, and why it is."""


class GroupQueue:
    """Groups in order of arrival.

    Args:
        unfinished: what a selection may know of groups that are not complete, as in `Take`: the version that
            the oldest started with, and their submitted indices.
        uniform: random numbers for a selection.
    """

    def __init__(
        self,
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
    ) -> None:
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
        self.copies = Copies()
        self.queue: deque[Group] = deque()
        self.candidates: deque[Candidate] = deque()
        """One for each group in the queue, for a selection that asks."""
        self.queued_rollouts = 0
        self.taken_batches = 0

    def queued(self) -> list[int]:
        return [i for group in self.queue for i in self.copies.distinct(group)]

    def tokens(self, rollout_ids: Sequence[int]) -> int:
        return sum(map(self.table.tokens.__getitem__, rollout_ids))

    def _append(self, group: Group) -> None:
        self.queue.append(group)
        self.queued_rollouts += len(group)
        if self.selection is not fifo:
            self.candidates.append(self._candidate(group))

    def _take(self, version: int) -> list[Group] | None:
        """The groups of the next batch, or None if there is none yet; what is too old is dropped."""
        return self._first(version) if self.selection is fifo else self._chosen(version)

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
