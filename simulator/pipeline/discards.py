"""What is thrown away, and what takes its place."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable
from heapq import heapify
from math import isnan
from typing import Final, TypeAlias, final

import simpy

from simulator.ledger import Ledger
from simulator.pipeline.admission import Door
from simulator.pipeline.buffer import Buffer
from simulator.pipeline.engine import Engine
from simulator.pipeline.fleet import Fleet
from simulator.pipeline.group_queue import Group
from simulator.pipeline.journal import Journal
from simulator.pipeline.rollout import Rollouts
from simulator.pipeline.unfinished import Unfinished
from simulator.pipeline.validation import Validation
from simulator.rules.eviction import AgeLimit, keep_all
from simulator.rules.staleness import Replacement

Attempt: TypeAlias = tuple[int, int]
"""A place, and the tokens that a whole answer there has."""

FAILURES: Final = ("environment_failed", "engine_crashed", "group_incomplete", "group_deadline")
"""Reasons that no rule is to blame for."""


@final
class Discards:
    """Complete groups, unfinished groups and single attempts, each with a reason.

    Args:
        version: the trainer's.
        unfinished: told of what is thrown away, if a selection asks what is not complete.
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
        unfinished: Unfinished | None = None,
    ) -> None:
        self.env = env
        self.table = table
        self.ledger = ledger
        self.journal = journal
        self.abort = abort
        self.replacement = replacement
        self.version = version
        self.unfinished = unfinished
        self.lost_rollouts = 0
        """Dropped for one of `FAILURES`, less the copies that stand in for them."""
        self.whole: dict[int, int] = {}
        """Tokens that a failing attempt would have had."""
        self.given_up: Callable[[int], None] = _ignore
        """Told of an unfinished group that was thrown away."""
        self._missing: dict[int, list[Attempt]] = {}
        """Members of padded groups that copies stand in for."""
        self.fleet: Fleet
        self.door: Door
        self.buffer: Buffer
        self.validation: Validation | None = None

    def complete(self, group: Group, reason: str) -> None:
        """A group left the queue."""
        self.note(group, reason, complete=True)
        if reason == "too_old" and self.replacement == "same_prompt":
            again = [(self.table.place[i], self.table.tokens[i]) for i in group]
            if self._missing:
                again = sorted(again + self._missing.pop(again[0][0] // self.table.group_size, []))
            self.door.again += again
        self.door.knock()

    def attempt(self, rollout_id: int, reason: str) -> Attempt:
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
        self.note([rollout_id], reason, complete=False)
        return place, self.whole.pop(rollout_id, tokens)

    def too_old(self, version: int) -> None:
        """Abort the unfinished groups whose oldest token is too old, now that `version` is published."""
        if self.abort is keep_all:
            return
        table = self.table
        for engine in self.fleet.engines:
            self.fleet.end_now(engine)
            self.fleet.changed(engine)
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
        self._throw_away(doomed, self._stop_all(which, "aborted"), "aborted")

    def give_up(self, group: int, reason: str, *, also: Iterable[Attempt]) -> None:
        """Throw an unfinished group away: what runs, what waits, and `also`, which has failed before."""
        self.end_now(group)
        self._throw_away([group], [*also, *self._stop_all(self._running(group), reason)], reason)

    def ship(self, group: int, reason: str, *, also: Iterable[Attempt]) -> None:
        """Queue an unfinished group, with copies in the places of members that run, and of `also`."""
        self.end_now(group)
        missing = [*also, *self._stop_all(self._running(group), reason)]
        missing += self.door.forget([group]) + self.door.skip(group)
        self.given_up(group)
        if self.replacement == "same_prompt":
            self._missing[group] = missing
        self.lost_rollouts -= self.buffer.pad(group)
        self.buffer.look_again()
        self.fleet.tell_who_waits()
        self.door.knock()

    def end_now(self, group: int) -> None:
        """Let end what would end at this instant, but for rounding, where members of `group` run."""
        for engine in self._where(self._running(group)):
            self.fleet.end_now(engine)
            self.fleet.changed(engine)

    def _stop_all(self, which: Collection[int], reason: str) -> list[Attempt]:
        """None of these goes on."""
        again = [self.attempt(i, reason) for i in self._outside(which)]
        stopped = [i for engine in self._where(which) for i in self._stop(engine, which, self.env.now)]
        stopped += self.door.recall(which)
        return again + [self.attempt(i, reason) for i in stopped]

    def _running(self, group: int) -> set[int]:
        place, size = self.table.place, self.table.group_size
        return {i for i in self.fleet.running() if place[i] // size == group}

    def _where(self, which: Collection[int]) -> list[Engine]:
        indices = {self.table.engine[i] for i in which} - {-1}  # of those that have had a slot
        return [self.fleet.engines[i] for i in sorted(indices)]

    def _throw_away(self, groups: Iterable[int], again: list[Attempt], reason: str) -> None:
        groups = list(groups)
        again += self.door.forget(groups)
        for group in groups:
            again += self._give_up_waiting(group, reason)
            self.given_up(group)
            if self.replacement == "new_prompt":
                self.door.skip(group)
        if self.replacement == "same_prompt":
            self.door.again += sorted(again)
        self.buffer.look_again()
        self.fleet.tell_who_waits()
        self.door.knock()

    def _outside(self, which: Collection[int]) -> list[int]:
        """Those whose environments start, work or judge."""
        if self.fleet.environments is None:
            return []
        inside = {one.rollout_id for one in self.door.returning}
        for engine in self.fleet.engines:
            inside.update(engine.preempted, (rollout_id for _, rollout_id, _ in engine.heap))
        return sorted(set(which) & self.fleet.environments.in_flight.keys() - inside)

    def _stop(self, engine: Engine, which: Collection[int], now_s: float) -> list[int]:
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

    def _give_up_waiting(self, group: int, reason: str) -> list[Attempt]:
        """Members that have finished go with the rest of their group."""
        members = self.buffer.incomplete.pop(group, [])
        if members:
            self.ledger.drop("waiting", reason, len(members), self.buffer.tokens(members))
            self.note(members, reason, complete=False)
        return [(self.table.place[i], self.table.tokens[i]) for i in members]

    def note(self, group: Group, reason: str, *, complete: bool) -> None:
        """They were thrown away now."""
        if reason in FAILURES:
            self.lost_rollouts += len(group)
        if self.unfinished is not None:
            self.unfinished.settle(group)
        self.journal.fate(
            group,
            "dropped",
            reason=reason,
            consumed_s=self.env.now,
            consumed_version=self.version(),
            complete=complete,
        )


def _ignore(group: int) -> None:
    """Nobody keeps count of groups."""
