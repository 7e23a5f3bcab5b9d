"""New weights reach the engines, and what they run ends, goes on or begins again.

An attempt to push may break off when some engines have the weights and others do not, and is made again.
Until one succeeds nothing is published: all engines hold what they held, whatever they have received, and
those that stand still for the push go on doing so (*choice*). Only where the rule loads one engine after
another do those that are done go on under the new weights; the next attempt is for the others.

References:
    A version may not move unless the load succeeds: https://github.com/vllm-project/vllm/issues/49040.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial
from typing import final

import simpy

from simulator.pipeline.admission import Door
from simulator.pipeline.discards import Discards
from simulator.pipeline.engine import Engine, Process
from simulator.pipeline.fleet import Fleet
from simulator.pipeline.instant import PUBLISH, Turn
from simulator.pipeline.journal import Journal
from simulator.rules.counts import Counts
from simulator.rules.on_sync import MayPublish, OnSync
from simulator.world.failures import BreaksOff


@final
class Push:
    """From the trainer to the engines, when the rule allows it.

    The trainer waits until the last engine holds the weights, unless each engine fetches them when it is
    idle.

    Args:
        published: told when the weights of a batch have arrived (when engines may fetch them, if they do).
        breaks_off: asked at each attempt.
        retry_s: from where one breaks off to the next.
    """

    def __init__(
        self,
        env: simpy.Environment,
        *,
        push_s: float,
        on_sync: OnSync,
        may_publish: MayPublish,
        counts: Callable[[], Counts],
        fleet: Fleet,
        door: Door,
        discards: Discards,
        journal: Journal,
        published: Callable[[int], None],
        breaks_off: BreaksOff | None = None,
        retry_s: float = 0.0,
    ) -> None:
        self.env = env
        self.push_s = push_s
        self.on_sync = on_sync
        self.may_publish = may_publish
        self.counts = counts
        self.fleet = fleet
        self.door = door
        self.discards = discards
        self.journal = journal
        self.published = published
        self.breaks_off = breaks_off or _never
        self.retry_s = retry_s
        self.failures = 0
        """Attempts that broke off."""
        self._offered = 0
        self.waits_for: str | None = None
        """What the trainer waits for before it pushes."""

    def run(self, version: int) -> Process:
        """Wait for the rule, push, publish."""
        yield from self._wait(lambda: self.may_publish(self.counts()), "the rule does not let it yet")
        engines = self.fleet.engines
        if self.on_sync.engines == "when_idle":
            yield Turn(self.env, PUBLISH)
            self._offer(version)
        elif self.on_sync.engines == "rolling":
            yield from self._one_by_one(engines, version)
        else:
            yield from self._get_ready(engines)
            while (done := self.breaks_off(len(engines))) is not None:
                yield from self._send(done / len(engines))
                yield from self._wait_to_retry()
            yield from self._send(1.0)
            for engine in engines:
                self._swap(engine, version)
        self.published(version)

    def pause(self, engines: Sequence[Engine], why: str) -> None:
        """These engines stand still, and nothing starts there."""
        for engine in engines:
            if not engine.paused:
                self.fleet.end_now(engine)
                engine.closed = True
                self.door.say_why(engine, why, self.env.now)
                engine.pause(self.env.now, why)
                self.fleet.changed(engine)

    def emptied(self, engine: Engine) -> None:
        """An engine that wants newer weights has nothing left to do: it fetches them."""
        engine.wants_weights = False
        self.pause([engine], "sync")
        self.env.process(self._fetch(engine))

    def _one_by_one(self, engines: Sequence[Engine], version: int) -> Process:
        while engines:
            done = self.breaks_off(len(engines))
            for engine in engines[:done]:
                yield from self._get_ready([engine])
                yield from self._send(1.0)
                self._swap(engine, version)
            engines = [] if done is None else engines[done:]
            if engines:
                yield from self._wait_to_retry()

    def _get_ready(self, engines: Sequence[Engine]) -> Process:
        if self.on_sync.running == "drain":
            for engine in engines:
                self._close(engine)
            yield from self._wait(lambda: all(e.empty for e in engines), "engines have rollouts to end")
        if self.on_sync.pauses_engines:
            self.pause(engines, "sync")

    def _send(self, part: float) -> Process:
        starts_s = self.env.now
        yield self.env.timeout(part * self.push_s)
        yield Turn(self.env, PUBLISH)
        self.journal.trainer("busy", "push", starts_s, self.env.now)

    def _wait_to_retry(self) -> Process:
        self.failures += 1
        since_s = self.env.now
        yield self.env.timeout(self.retry_s)
        self.journal.trainer("idle", "push_failed", since_s, self.env.now)

    def _offer(self, version: int) -> None:
        """Each engine takes the newest weights once its last rollout has ended; until then nothing starts."""
        self._offered = version
        for engine in self.fleet.engines:
            if engine.paused:
                continue  # it is fetching older ones, and will see
            self._close(engine)
            engine.wants_weights = True
            if engine.empty:
                self.emptied(engine)

    def _fetch(self, engine: Engine) -> Process:
        while self.breaks_off(1) is not None:  # the trainer waits for nobody here
            self.failures += 1
            yield self.env.timeout(self.retry_s)
        version = self._offered
        yield self.env.timeout(self.push_s)
        yield Turn(self.env, PUBLISH)
        self._swap(engine, version)
        if self._offered > version:
            self._close(engine)
            self.emptied(engine)
        self.door.knock()

    def _swap(self, engine: Engine, version: int) -> None:
        """The engine holds the weights from now on, and goes on."""
        now_s, running = self.env.now, self.on_sync.running
        stopped = []
        if running in ("restart", "recompute"):
            self.fleet.end_now(engine)
            stopped = engine.remove(now_s)
        self.fleet.publish(engine, version, now_s)
        if engine.paused:
            engine.resume(now_s)
        if running == "restart":
            self._restart(engine, stopped, now_s)
        elif running == "recompute":
            if self.fleet.environments is not None:
                self.fleet.environments.keys_are_lost(engine)
            for rollout_id, slot in stopped:
                self.fleet.go_on(engine, rollout_id, slot, now_s)
        engine.closed = False
        self.door.say_why(engine, "gate_closed", now_s)
        self.fleet.readmit(engine, now_s)
        self.fleet.changed(engine)

    def _restart(self, engine: Engine, stopped: Sequence[tuple[int, int]], now_s: float) -> None:
        for rollout_id, slot in stopped:
            place, tokens = self.discards.attempt(rollout_id, "restarted")
            if self.fleet.environments is None or place < 0:
                self.door.start(engine, slot, place, tokens, now_s)
            else:  # its environment starts again
                self.door.wait(engine, slot, now_s)
                self.door.ask_again(place, tokens)
        # Those that had been preempted have no slot to begin again in.
        for rollout_id in sorted((*engine.preempted, *engine.away)):
            self.door.ask_again(*self.discards.attempt(rollout_id, "restarted"))
        engine.preempted.clear()
        self.door.knock()

    def _close(self, engine: Engine) -> None:
        engine.closed = True
        self.door.say_why(engine, "sync", self.env.now)

    def _wait(self, for_what: Callable[[], bool], in_words: str) -> Process:
        """Until engines have come so far that something holds."""
        since_s = self.env.now
        while not for_what():
            self.waits_for = in_words
            rollout_ended = simpy.Event(self.env)
            self.fleet.who_waits = partial(self._wake, rollout_ended)
            yield rollout_ended
            self.waits_for = None
        self.journal.trainer("idle", "engines_busy", since_s, self.env.now)

    def _wake(self, waiting: simpy.Event) -> None:
        self.fleet.who_waits = None
        waiting.succeed()


def _never(engines: int) -> None:
    """No attempt breaks off."""
