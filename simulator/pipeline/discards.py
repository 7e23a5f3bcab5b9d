"""What is thrown away, and what takes its place."""

from __future__ import annotations

from collections.abc import Callable
from heapq import heapify
from math import isnan
from typing import final

import simpy

from simulator.ledger import Ledger
from simulator.pipeline.admission import Door
from simulator.pipeline.buffer import Buffer, Group
from simulator.pipeline.engine import Engine
from simulator.pipeline.fleet import Fleet
from simulator.pipeline.journal import Journal
from simulator.pipeline.rollout import Rollouts
from simulator.pipeline.validation import Validation
from simulator.rules.eviction import AgeLimit, keep_all
from simulator.rules.staleness import Replacement


@final
class Discards:
    """Complete groups, unfinished groups and single attempts, each with a reason.

    Args:
        version: the trainer's.
    """

    def __init__(
        self,
        env: simpy.Environment,
        *,
        table: Rollouts,
        ledger: Ledger,
        journal: Journal,
        abort: AgeLimit,
        replacement: Replacement,
        version: Callable[[], int],
    ) -> None:
        self.env = env
        self.table = table
        self.ledger = ledger
        self.journal = journal
        self.abort = abort
        self.replacement = replacement
        self.version = version
        self.fleet: Fleet
        self.door: Door
        self.buffer: Buffer
        self.validation: Validation | None = None

    def complete(self, group: Group, reason: str) -> None:
        """A group left the queue."""
        self._note(group, reason, complete=True)
        if reason == "too_old" and self.replacement == "same_prompt":
            self.door.again += [(self.table.place[i], self.table.tokens[i]) for i in group]
        self.door.knock()

    def attempt(self, rollout_id: int, reason: str) -> tuple[int, int]:
        """An interrupted rollout is given up: its place and the tokens that it would have had."""
        table = self.table
        place, tokens = table.place[rollout_id], table.tokens[rollout_id]
        made = table.made_before[rollout_id] if isnan(table.finished_s[rollout_id]) else tokens
        table.tokens[rollout_id] = made
        if place < 0:
            assert self.validation is not None
            self.ledger.cut("validation", tokens - made)
            self.validation.restarted(rollout_id, reason)
            return place, tokens
        if self.fleet.environments is not None:
            self.fleet.environments.give_up(rollout_id)
        self.ledger.cut("in_flight", tokens - made)
        self.ledger.drop("in_flight", reason, 1, made)
        self._note([rollout_id], reason, complete=False)
        return place, tokens

    def unfinished(self) -> tuple[int | None, list[int]]:
        """Of groups that are not complete: the oldest version, and their indices in order."""
        ids = self.fleet.running() + [i for members in self.buffer.incomplete.values() for i in members]
        oldest = min(map(self.table.oldest_version, ids), default=None)
        places = [self.table.place[i] for i in ids] + [place for place, _ in self.door.again]
        return oldest, sorted({place // self.table.group_size for place in places})

    def too_old(self, version: int) -> None:
        """Abort the unfinished groups whose oldest token is too old, now that `version` is published."""
        if self.abort is keep_all:
            return
        table, now_s = self.table, self.env.now
        for engine in self.fleet.engines:
            self.fleet.end_now(engine)
        groups: dict[int, list[int]] = {}
        for rollout_id in self.fleet.running():
            groups.setdefault(table.place[rollout_id] // table.group_size, []).append(rollout_id)
        for group, members in self.buffer.incomplete.items():
            groups.setdefault(group, []).extend(members)
        doomed = {
            group: members
            for group, members in groups.items()
            if self.abort(version - min(map(table.oldest_version, members)))
        }
        which = {i for members in doomed.values() for i in members}
        again = self._give_up_outside(which)
        stopped = [i for engine in self.fleet.engines for i in self._stop(engine, which, now_s)]
        again += [self.attempt(i, "aborted") for i in stopped]
        for group in doomed:
            again += self._give_up_waiting(group)
            if self.replacement == "new_prompt":
                self.door.skip(group)
        if self.replacement == "same_prompt":
            self.door.again += sorted(again)
        self.buffer.look_again()
        self.door.knock()

    def _give_up_outside(self, which: set[int]) -> list[tuple[int, int]]:
        """Those whose environments start, work or judge."""
        if self.fleet.environments is None:
            return []
        inside = {i for e in self.fleet.engines for i in (*e.preempted, *(entry[1] for entry in e.heap))}
        outside = sorted(which & self.fleet.environments.in_flight.keys() - inside)
        return [self.attempt(i, "aborted") for i in outside]

    def _stop(self, engine: Engine, which: set[int], now_s: float) -> list[int]:
        stopped = [i for i in engine.preempted if i in which]
        engine.preempted = [i for i in engine.preempted if i not in which]
        heapify(engine.preempted)
        for rollout_id, slot in engine.remove(now_s, which):
            stopped.append(rollout_id)
            self.door.wait(engine, slot, now_s)
        self.fleet.readmit(engine, now_s)
        self.fleet.changed(engine)
        if engine.wants_weights and engine.empty:
            self.fleet.emptied(engine)
        return stopped

    def _give_up_waiting(self, group: int) -> list[tuple[int, int]]:
        """Members that have finished go with the rest of their group."""
        members = self.buffer.incomplete.pop(group, [])
        if members:
            self.ledger.drop("waiting", "aborted", len(members), self.buffer.tokens(members))
            self._note(members, "aborted", complete=False)
        return [(self.table.place[i], self.table.tokens[i]) for i in members]

    def _note(self, group: Group, reason: str, *, complete: bool) -> None:
        self.journal.fate(
            group,
            "dropped",
            reason=reason,
            consumed_s=self.env.now,
            consumed_version=self.version(),
            complete=complete,
        )
