"""All engines, and what happens next in any of them."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from heapq import heappop, heappush, heapreplace
from math import inf, nan
from typing import TYPE_CHECKING, Final, final

import simpy

from simulator.pipeline.admission import Door
from simulator.pipeline.engine import Engine
from simulator.pipeline.instant import COMPLETION, at
from simulator.pipeline.loaded import LoadedEngine
from simulator.pipeline.rollout import Rollouts

if TYPE_CHECKING:
    from simulator.pipeline.environments import Environments

_MOST_PREEMPTIONS: Final = 16
"""For each slot, without one rollout ending in between: more is a loop, not progress."""


@final
class Fleet:
    """Lets rollouts end, in order of time and then of rollout_id, whatever engine they are in.

    One SimPy event brings it to the next completion; from there it goes on by itself for as long as nothing
    else is planned before the one after.

    Args:
        finished: told of each rollout that ends.
        emptied: told of an engine that has nothing left and wants weights.
    """

    def __init__(
        self,
        env: simpy.Environment,
        table: Rollouts,
        engines: Sequence[Engine],
        *,
        finished: Callable[[int], None],
        emptied: Callable[[Engine], None],
    ) -> None:
        self.env = env
        self.table = table
        self.engines = engines
        self.finished = finished
        self.emptied = emptied
        self.who_waits: Callable[[], None] | None = None
        """Called after the next end of a rollout: a push that waits for engines to drain."""
        self.door: Door
        self.environments: Environments | None = None
        """If rollouts have any."""
        self.version = 0
        """The oldest that a rollout which starts now could be made by."""
        self._agenda: list[tuple[float, int, int]] = []
        """Next time, rollout and engine; entries that an engine has outrun are passed over."""
        self._due_s = inf
        self._is_at_work = False
        self._preemptions = 0
        self._slots = sum(len(engine.slots) for engine in engines)

    def changed(self, engine: Engine) -> None:
        """Something other than `_work` changed what comes next in `engine`."""
        engine.plan()
        if engine.next_s == inf:
            return
        if len(self.engines) > 1:
            heappush(self._agenda, (engine.next_s, engine.heap[0][1], engine.index))
        if engine.next_s < self._due_s and not self._is_at_work:
            self._wake_at(engine.next_s)

    def readmit(self, engine: Engine, now_s: float) -> None:
        """Those that were preempted come back, oldest first, while they fit; `changed` must follow."""
        while engine.preempted and engine.free and not engine.paused:
            rollout_id = engine.preempted[0]
            if not self._fits(engine, rollout_id, now_s):
                break
            heappop(engine.preempted)
            _, slot = engine.free.popleft()
            self.door.free_slots -= 1
            engine.slots[slot].work(now_s)
            self.go_on(engine, rollout_id, slot, now_s)

    def end_now(self, engine: Engine) -> None:
        """Let end what would end at this instant, but for rounding; `changed` must follow."""
        now_s = self.env.now
        for rollout_id, slot in engine.end_now(now_s):
            if self.environments is not None and self.environments.turn_ended(
                engine, rollout_id, slot, now_s
            ):
                self.table.finished_s[rollout_id] = nan
                if not self.environments.keeps_slots:
                    self.door.wait(engine, slot, now_s)
                continue
            self.finished(rollout_id)
            self.tell_who_waits()
            self.door.wait(engine, slot, now_s)

    def tell_who_waits(self) -> None:
        """Something ended."""
        if self.who_waits is not None:
            self.who_waits()

    def go_on(self, engine: Engine, rollout_id: int, slot: int, now_s: float) -> None:
        """A rollout gets a slot again and computes its prefix, if it must; `changed` must follow."""
        if self.environments is not None:
            self.environments.begin(engine, rollout_id, slot, now_s)
            return
        table = self.table
        made = table.made_before[rollout_id]
        table.engine[rollout_id] = engine.index
        table.resume(rollout_id, now_s, engine.latest)
        prefix = self.door.prompt_tokens + made
        remaining = table.tokens[rollout_id] - made
        table.position[rollout_id] = engine.begin(rollout_id, slot, remaining, prefix, now_s)

    def _fits(self, engine: Engine, rollout_id: int, now_s: float) -> bool:
        if self.environments is not None:
            return self.environments.fits_again(engine, rollout_id, now_s)
        return engine.can_begin(self.door.prompt_tokens + self.table.made_before[rollout_id], now_s)

    def publish(self, engine: Engine, version: int, now_s: float) -> None:
        """An engine holds these weights from now on."""
        engine.publish(version, now_s)
        self.version = min(engine.weights.versions[-1] for engine in self.engines)

    def running(self) -> list[int]:
        """Rollouts for training that have started and not ended, oldest first.

        Not to be asked while one is ending.
        """
        if self.environments is not None:
            return sorted(self.environments.in_flight)
        running = [rollout_id for engine in self.engines for _, rollout_id, _ in engine.heap]
        running += [i for engine in self.engines for i in engine.preempted]
        running += [one.rollout_id for one in self.door.returning if one.rollout_id is not None]
        place = self.table.place
        return sorted(i for i in running if place[i] >= 0)

    def _wake_at(self, time_s: float) -> None:
        self._due_s = time_s
        at(self.env, time_s, COMPLETION, self._wake)

    def _wake(self, _event: simpy.Event) -> None:
        if self.env.now == self._due_s:  # else something earlier has come up since
            self._due_s = inf
            self._is_at_work = True
            self._work()
            self._is_at_work = False

    def _work(self) -> None:
        env, door, finished = self.env, self.door, self.finished
        finished_s, after, planned = self.table.finished_s, self.table.after, self.door.planned
        several, environments = len(self.engines) > 1, self.environments
        now_s = env.now
        engine = self.engines[0]
        while True:
            if several:
                engine = self._earliest()
            next_s = engine.next_s
            if next_s > now_s:
                if next_s == inf:
                    return
                if planned and next_s >= planned[0][0]:
                    self._wake_at(next_s)
                    return
                env._now = now_s = next_s
            if engine.fills:  # not the end of a rollout
                self._preempt(engine, now_s)
            else:
                rollout_id, slot = engine.finish()
                if environments is not None and environments.turn_ended(engine, rollout_id, slot, now_s):
                    self._between_turns(engine, slot, now_s)
                    engine.plan()
                    if several:
                        self._note(engine)
                    continue
                finished_s[rollout_id] = now_s
                after[rollout_id] = engine.latest
                finished(rollout_id)
                if self.who_waits is not None:
                    self.who_waits()
                if door.enter(engine, slot, now_s):
                    if several:
                        self._note(engine)
                    continue
                self._leave_free(engine, slot, now_s)
            engine.plan()
            if several:
                self._note(engine)

    def _earliest(self) -> Engine:
        agenda = self._agenda
        while agenda:
            next_s, rollout_id, index = agenda[0]
            engine = self.engines[index]
            if engine.next_s == next_s and engine.heap[0][1] == rollout_id:
                return engine
            heappop(agenda)
        return self.engines[0]  # nothing runs anywhere

    def _note(self, engine: Engine) -> None:
        if engine.next_s == inf:
            return
        entry = (engine.next_s, engine.heap[0][1], engine.index)
        if self._agenda and self._agenda[0][2] == engine.index:
            heapreplace(self._agenda, entry)  # the entry that was just dealt with
        else:
            heappush(self._agenda, entry)

    def _leave_free(self, engine: Engine, slot: int, now_s: float) -> None:
        self.door.wait(engine, slot, now_s)
        self._room(engine, now_s)

    def _between_turns(self, engine: Engine, slot: int, now_s: float) -> None:
        assert self.environments is not None
        if not self.environments.keeps_slots:
            self.door.wait(engine, slot, now_s)
        self._room(engine, now_s)

    def _room(self, engine: Engine, now_s: float) -> None:
        """Something has left the engine."""
        self._preemptions = 0
        if engine.preempted:
            self.readmit(engine, now_s)
        if engine.wants_weights and engine.empty:
            self.emptied(engine)
        if not engine.another_ends_now():
            self.door.knock_now()
        elif len(self.engines) > 1 or not _ends_next(engine):  # else that one will
            self.door.knock()

    def _preempt(self, engine: Engine, now_s: float) -> None:
        assert isinstance(engine, LoadedEngine)
        self._preemptions += 1
        if self._preemptions > _MOST_PREEMPTIONS * self._slots:
            raise RuntimeError(f"{self._preemptions} preemptions in a row at {now_s} s, and no rollout ended")
        _, slot = engine.preempt()
        self.door.wait(engine, slot, now_s)
        engine.slots[slot].wait_for("kv_full", now_s)


def _ends_next(engine: Engine) -> bool:
    """Does another end where one has just ended, to the last digit? Nothing here comes before it."""
    return any(entry[0] == engine.heap[0][0] for entry in engine.heap[1:3])
