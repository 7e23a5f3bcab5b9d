"""Engines crash and come back, or run slow for a while."""

from __future__ import annotations

from collections.abc import Callable
from typing import final

import simpy

from simulator.pipeline.admission import Door
from simulator.pipeline.admission_queue import Returning
from simulator.pipeline.discards import Discards
from simulator.pipeline.engine import Engine, Process
from simulator.pipeline.fleet import Fleet
from simulator.pipeline.loaded import LoadedEngine
from simulator.world.failures import Spells, in_time


@final
class Background:
    """Waits that cannot bring a run on: for the next crash, say. When only they are left, it is stuck.

    Args:
        stuck: called then; raises.
    """

    def __init__(self, env: simpy.Environment, stuck: Callable[[], None]) -> None:
        self.env = env
        self.stuck = stuck
        self.pending = 0

    def wait(self, seconds: float) -> Process:
        self.pending += 1
        yield self.env.timeout(seconds)
        self.pending -= 1
        if len(self.env._queue) == self.pending:
            self.stuck()


@final
class Outages:
    """Crashes of engines, and slow spells.

    Args:
        resumes: what an engine ran goes on elsewhere, its whole prefix computed again; not on an engine that
            is behind the weights it was cut off under (*choice*: so its versions never decrease). Otherwise
            it begins again from its prompt, and what it had made is dropped.
        emptied: told of an engine that runs no more.
    """

    def __init__(
        self,
        env: simpy.Environment,
        *,
        fleet: Fleet,
        door: Door,
        discards: Discards,
        resumes: bool,
        emptied: Callable[[Engine], None],
        background: Background,
    ) -> None:
        self.env = env
        self.fleet = fleet
        self.door = door
        self.discards = discards
        self.resumes = resumes
        self.emptied = emptied
        self.background = background
        self.crashes = 0

    def crashing(self, engine: Engine, outages: Spells) -> Process:
        """One engine's life."""
        for up_s, down_s in in_time(outages):
            yield from self.background.wait(up_s)
            self._crash(engine)
            yield self.env.timeout(down_s)
            engine.down = False
            self.door.say_why(engine, engine.why_free_if_up, self.env.now)
            self.door.knock()

    def slowing(self, engine: LoadedEngine, spells: Spells, factor: float) -> Process:
        """One straggler's life. A prefill under way is not stretched (*choice*)."""
        for able_s, slow_s in in_time(spells):
            yield from self.background.wait(able_s)
            self._pace(engine, factor)
            yield from self.background.wait(slow_s)
            self._pace(engine, 1.0)

    def _crash(self, engine: Engine) -> None:
        """What runs there stops; weights that are on their way still reach it, for when it is back."""
        now_s, door = self.env.now, self.door
        self.crashes += 1
        self.fleet.end_now(engine)
        engine.why_free_if_up = engine.why_free
        door.say_why(engine, "crashed", now_s)
        engine.down = True
        if self.fleet.environments is not None:
            self.fleet.environments.crashed(engine)
        stopped = list(engine.preempted)
        engine.preempted.clear()
        for rollout_id, slot in engine.remove(now_s):
            stopped.append(rollout_id)
            door.wait(engine, slot, now_s)
        self.fleet.changed(engine)
        table = self.fleet.table
        for rollout_id in sorted(stopped):
            if table.place[rollout_id] < 0:  # for validation
                door.ask_again(*self.discards.attempt(rollout_id, "engine_crashed"))
            elif self.resumes:
                door.come_back(Returning(rollout_id, table.place[rollout_id], table.tokens[rollout_id]))
            else:
                door.come_back(Returning(None, *self.discards.attempt(rollout_id, "engine_crashed")))
        self.emptied(engine)
        door.knock()

    def _pace(self, engine: LoadedEngine, factor: float) -> None:
        engine.set_pace(factor, self.env.now)
        self.fleet.changed(engine)
