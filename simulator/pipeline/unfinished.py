"""Which groups are not complete, and which is the oldest version among them? For selections that ask.

A selection may be asked at every completion, so nothing here goes through all that runs: rollouts are counted
by group as they start, and again as they are settled (queued, or thrown away), and a heap knows the oldest.
"""

from __future__ import annotations

from bisect import bisect_left, insort
from collections.abc import Iterable, Sequence
from heapq import heappop, heappush, heapreplace
from typing import final

from simulator.pipeline.rollout import Rollouts


@final
class Unfinished:
    """Groups for training that have started and are in no queue.

    Rollouts that have started since the last question are counted at the next one: a start costs nothing.
    """

    def __init__(self, table: Rollouts) -> None:
        self._table = table
        self._counted = 0
        """Rollouts, by id, that have been counted as started."""
        self._is_settled = bytearray()
        self._members: dict[int, int] = {}
        """Unsettled attempts of each group."""
        self._groups: list[int] = []
        """Those groups, in order."""
        self._by_age: list[tuple[int, int]] = []
        """A heap: a version, and a rollout that may be settled and was not started with an older one."""

    def settle(self, rollout_ids: Iterable[int]) -> None:
        """They were queued with their group, or thrown away; some may have been settled before."""
        self._grow()
        settled, place, size = self._is_settled, self._table.place, self._table.group_size
        for rollout_id in rollout_ids:
            if settled[rollout_id]:
                continue
            settled[rollout_id] = True
            if rollout_id < self._counted and place[rollout_id] >= 0:
                self._leave(place[rollout_id] // size)

    def oldest_version(self) -> int | None:
        """Of the first token of any; None if every group is complete."""
        self._count()
        heap, oldest_version = self._by_age, self._table.oldest_version
        while heap:
            known, rollout_id = heap[0]
            if self._is_settled[rollout_id]:
                heappop(heap)
                continue
            # It may have begun only now, or again: engines never go back, so not with an older one.
            version = oldest_version(rollout_id)
            if version == known:
                return version
            heapreplace(heap, (version, rollout_id))
        return None

    def groups(self, also: Iterable[int]) -> Sequence[int]:
        """Indices in order, with those of `also`; to be read before anything else happens."""
        self._count()
        more = {*also}.difference(self._members)
        return sorted([*self._groups, *more]) if more else self._groups

    def _count(self) -> None:
        """Rollouts that have started since."""
        self._grow()
        table, members = self._table, self._members
        for rollout_id in range(self._counted, len(table)):
            place = table.place[rollout_id]
            if place < 0 or self._is_settled[rollout_id]:
                continue
            heappush(self._by_age, (table.oldest_version(rollout_id), rollout_id))
            group = place // table.group_size
            if group in members:
                members[group] += 1
            else:
                members[group] = 1
                insort(self._groups, group)
        self._counted = len(table)

    def _leave(self, group: int) -> None:
        self._members[group] -= 1
        if not self._members[group]:
            del self._members[group]
            del self._groups[bisect_left(self._groups, group)]

    def _grow(self) -> None:
        self._is_settled.extend(bytes(len(self._table) - len(self._is_settled)))
