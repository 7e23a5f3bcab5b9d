"""The queue of complete groups: which of them make the next batch, and which are thrown away?"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Sequence
from typing import TypeAlias

from simulator.ledger import Ledger
from simulator.pipeline.copies import Copies
from simulator.pipeline.rollout import Rollouts
from simulator.pipeline.unfinished import Unfinished
from simulator.rules.eviction import AgeLimit, Overflow, keep_all
from simulator.rules.selection import Candidate, Selection, Take, fifo

Group: TypeAlias = Sequence[int]
"""The rollouts of one prompt, by member."""

Drop: TypeAlias = Callable[[Group, str], None]
"""What to do with a complete group that is thrown away, and why it is."""


class GroupQueue:
    """Groups in order of arrival.

    Args:
        unfinished: groups that are not complete, for a selection that asks.
        asked_again: submitted indices of groups that lost members, which will start again.
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
        unfinished: Unfinished,
        asked_again: Callable[[], list[int]],
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
        self.asked_again = asked_again
        self.uniform = uniform
        self.copies = Copies()
        self.queue: deque[Group] = deque()
        self.candidates: list[Candidate] = []
        """One for each group in the queue, for a selection that asks."""
        self._judged = (0, 0)
        """A version, and how many of the first candidates are not too old for it."""
        self.queued_rollouts = 0
        self.taken_batches = 0

    def queued(self) -> list[int]:
        return [i for group in self.queue for i in self.copies.distinct(group)]

    def tokens(self, rollout_ids: Sequence[int]) -> int:
        return sum(map(self.table.tokens.__getitem__, rollout_ids))

    def _consider(self, group: Group) -> None:
        """It has been queued: a selection may ask for it."""
        self.candidates.append(self._candidate(group))
        self.unfinished.settle(group)

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
        old = self._outdated(version)
        while True:
            for group in self._extract(old):
                self._drop(group, "too_old")
            if self.queued_rollouts < self.batch_rollouts:
                return None
            places = self.selection(self.candidates, self._question(version))
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

    def _outdated(self, version: int) -> list[int]:
        """Places of what no batch of `version` may hold; nothing is judged twice for one version."""
        if self.age_limit is keep_all:
            return []
        judged = self._judged[1] if self._judged[0] == version else 0
        old = [
            i
            for i in range(judged, len(self.candidates))
            if self.age_limit(version - self.candidates[i].oldest_version)
        ]
        self._judged = (version, len(self.candidates))  # what is old goes now
        return old

    def _question(self, version: int) -> Take:
        return Take(
            batch_rollouts=self.batch_rollouts,
            version=version,
            taken_batches=self.taken_batches,
            updates_per_batch=self.updates_per_batch,
            oldest_running_version=self.unfinished.oldest_version(),
            unfinished_indices=self.unfinished.groups(self.asked_again()),
            uniform=self.uniform,
        )

    def _candidate(self, group: Group) -> Candidate:
        table = self.table
        return Candidate(
            submitted_index=table.place[group[0]] // table.group_size,
            oldest_version=min(map(table.oldest_version, group)),
            newest_version=max(map(table.last_version, group)),
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
        self.candidates = [c for i, c in enumerate(self.candidates) if i not in out]
        self._judged = (self._judged[0], self._judged[1] - sum(i < self._judged[1] for i in out))
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
            del self.candidates[0]
            self._judged = (self._judged[0], max(0, self._judged[1] - 1))
        self.queued_rollouts -= len(group)
        return group

    def _drop(self, group: Group, reason: str) -> None:
        rollouts = self.copies.distinct(group)
        self.copies.move("queued", None, len(group) - len(rollouts))
        self.ledger.drop("queued", reason, len(rollouts), self.tokens(rollouts))
        self.on_drop(rollouts, reason)
