"""What rollouts do besides decoding: their environments start, work between turns, and judge.

A rollout is admitted, waits for its environment to start, asks for a slot, and decodes its first turn; from
its first slot on it stays with one engine, where its keys and values are. When a turn ends the environment
works; then the rollout is the first to get a slot there (with those that had to leave for want of memory,
oldest first; `fleet` gives slots). An environment is taken from admission until the reward is known:
the environment judges (*choice*).
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Sequence
from functools import partial
from heapq import heappush
from math import nan
from typing import final

import simpy

from simulator.ledger import Ledger
from simulator.pipeline.admission_queue import Returning
from simulator.pipeline.course import Course, refuse_impossible
from simulator.pipeline.engine import Engine
from simulator.pipeline.fleet import Fleet
from simulator.pipeline.instant import COMPLETION, RETURN, at
from simulator.pipeline.rollout import Rollouts
from simulator.world.episodes import Episode


@final
class Environments:
    """Rollouts with environments, from admission to reward.

    Args:
        number: how many environments there are.
        episode: of a prompt and a member.
        keeps_slots, keeps_keys: while an environment works between two turns.
        complete: told of each rollout whose reward is known.
    """

    def __init__(
        self,
        env: simpy.Environment,
        *,
        table: Rollouts,
        ledger: Ledger,
        engines: Sequence[Engine],
        number: int,
        episode: Callable[[int, int], Episode],
        keeps_slots: bool,
        keeps_keys: bool,
        prompt_tokens: int,
        complete: Callable[[int], None],
    ) -> None:
        self.env = env
        self.table = table
        self.ledger = ledger
        self.engines = engines
        self.number = number
        self.episode = episode
        self.keeps_slots = keeps_slots
        self.keeps_keys = keeps_keys
        self.prompt_tokens = prompt_tokens
        self.complete = complete
        self.fleet: Fleet
        self.in_flight: dict[int, Course] = {}
        """Rollouts that have an environment."""
        self.ready: deque[int] = deque()
        """Whose environments have started, and which have never had a slot."""

    @property
    def free(self) -> int:
        return self.number - len(self.in_flight)

    def admit(self, place: int, now_s: float, on_start: Callable[[int, int], int] | None) -> None:
        """A rollout gets an environment, which starts.

        Args:
            on_start: told of its place and tokens; says how many it will make before its environment fails.
        """
        episode = self.episode(*divmod(place, self.table.group_size))
        if on_start is not None:
            episode = episode.cut(on_start(place, episode.action_tokens))
        course = self.enrol(place, episode, "in_flight", now_s)
        rollout_id = len(self.table) - 1
        self.in_flight[rollout_id] = course
        if episode.start_s > 0:
            at(self.env, now_s + episode.start_s, RETURN, partial(self._started, rollout_id, course))
        else:
            self.ready.append(rollout_id)

    def enrol(self, place: int, episode: Episode, state: str, now_s: float) -> Course:
        """A row for a rollout that has no engine yet."""
        table, tokens = self.table, episode.action_tokens
        refuse_impossible(place, episode, self.prompt_tokens, self.engines[0].capacity_tokens)
        self.ledger.start(tokens, state)
        rollout_id = table.add(place, tokens, -1, nan, 0)
        table.position.append(0.0)
        table.made_before[rollout_id] = 0
        table.observed_tokens[rollout_id] = 0
        course = Course(episode=episode, submitted_s=now_s, end_tokens=episode.turn_tokens[0])
        table.courses[rollout_id] = course
        return course

    def begin(self, engine: Engine, rollout_id: int, slot: int, now_s: float) -> None:
        """A rollout gets a slot, for a turn or for the rest of one; `Fleet.changed` must follow."""
        table, course = self.table, self.table.courses[rollout_id]
        if table.engine[rollout_id] < 0:
            table.engine[rollout_id] = engine.index
            table.started_s[rollout_id] = now_s
            table.before[rollout_id] = engine.latest
        else:
            table.engine[rollout_id] = engine.index  # another one after a crash
            table.resume(rollout_id, now_s, engine.latest)
        made, kept = table.made_before[rollout_id], course.kept_tokens
        self._forget(engine, course)
        prefix = self.prompt_tokens + table.observed_tokens[rollout_id] + made
        table.position[rollout_id] = engine.begin(
            rollout_id, slot, course.end_tokens - made, prefix, now_s, kept_tokens=kept
        )

    def needed_tokens(self, rollout_id: int) -> int:
        """Keys and values that are not in its engine yet."""
        made, observed = self.table.made_before[rollout_id], self.table.observed_tokens[rollout_id]
        return self.prompt_tokens + observed + made - self.table.courses[rollout_id].kept_tokens

    def turn_ended(self, engine: Engine, rollout_id: int, slot: int, now_s: float) -> bool:
        """A rollout has made the last token of a turn. False if that was its last turn.

        Unless slots are kept, the slot must then be given to someone.
        """
        table, course = self.table, self.table.courses[rollout_id]
        episode = course.episode
        if course.is_last_turn:
            return False
        table.interrupt(rollout_id, course.end_tokens - table.made_before[rollout_id], now_s, engine.latest)
        if self.keeps_keys:
            course.kept_tokens = self.prompt_tokens + table.observed_tokens[rollout_id] + course.end_tokens
            engine.keep_keys(course.kept_tokens)
        table.observed_tokens[rollout_id] += episode.observation_tokens[course.turn]
        back_s = now_s + episode.latency_s[course.turn]
        at(self.env, back_s, RETURN, partial(self._returned, rollout_id, course))
        course.turn += 1
        course.end_tokens += episode.turn_tokens[course.turn]
        engine.away.add(rollout_id)
        if self.keeps_slots:
            course.slot = slot
            engine.slots[slot].wait(now_s, "environment")
        return True

    def finished(self, rollout_id: int) -> None:
        """It has made its last token."""
        course = self.in_flight[rollout_id]
        if course.episode.reward_s > 0:
            when_s = self.env.now + course.episode.reward_s
            at(self.env, when_s, COMPLETION, partial(self._judged, rollout_id, course))
        else:
            del self.in_flight[rollout_id]
            self.complete(rollout_id)

    def keys_are_lost(self, engine: Engine) -> None:
        """Nothing that the engine kept between turns is of use any more."""
        for rollout_id in (*engine.away, *engine.preempted):
            self._forget(engine, self.table.courses[rollout_id])

    def crashed(self, engine: Engine) -> None:
        """Whose environment works loses keys and slot, but no token."""
        self.keys_are_lost(engine)
        for rollout_id in sorted(engine.away):
            course = self.table.courses[rollout_id]
            if course.slot is not None:
                self._release(engine, course)

    def give_up(self, rollout_id: int) -> None:
        """A rollout that does not decode, or does no more, is thrown away."""
        course = self.in_flight.pop(rollout_id)
        index = self.table.engine[rollout_id]
        if index < 0:
            if rollout_id in self.ready:
                self.ready.remove(rollout_id)
            return
        engine = self.engines[index]
        engine.away.discard(rollout_id)
        self._forget(engine, course)
        if course.slot is not None:
            self._release(engine, course)

    def _started(self, rollout_id: int, course: Course, _event: simpy.Event) -> None:
        if self.in_flight.get(rollout_id) is course:
            self.ready.append(rollout_id)
            self.fleet.door.knock_now()

    def _returned(self, rollout_id: int, course: Course, _event: simpy.Event) -> None:
        """The environment has done its work."""
        if self.in_flight.get(rollout_id) is not course:
            return
        now_s, fleet = self.env.now, self.fleet
        engine = self.engines[self.table.engine[rollout_id]]
        fleet.end_now(engine)  # what begins now must not delay what ends now but for rounding
        engine.away.remove(rollout_id)
        slot = course.slot
        if engine.down:
            table = self.table
            fleet.door.come_back(Returning(rollout_id, table.place[rollout_id], table.tokens[rollout_id]))
            fleet.door.knock()
            fleet.tell_who_waits()
            if engine.wants_weights and engine.empty:
                fleet.emptied(engine)
            return
        if slot is not None and not engine.paused and self.fits_again(engine, rollout_id, now_s):
            course.slot = None
            engine.slots[slot].work(now_s)
            self.begin(engine, rollout_id, slot, now_s)
        else:
            if slot is not None:
                self._release(engine, course)
            heappush(engine.preempted, rollout_id)
            fleet.readmit(engine, now_s)
        fleet.changed(engine)

    def _judged(self, rollout_id: int, course: Course, _event: simpy.Event) -> None:
        if self.in_flight.get(rollout_id) is course:
            del self.in_flight[rollout_id]
            self.complete(rollout_id)
            self.fleet.tell_who_waits()
            self.fleet.door.knock()

    def fits_again(self, engine: Engine, rollout_id: int, now_s: float) -> bool:
        """Is there room for a rollout that comes back?

        If not, all that wait for a slot here lose their keys and values, or they might wait for each other.
        """
        if not engine.asks_before_start or engine.can_begin(self.needed_tokens(rollout_id), now_s):
            return True
        for other in engine.preempted:
            self._forget(engine, self.table.courses[other])
        return engine.can_begin(self.needed_tokens(rollout_id), now_s)

    def _release(self, engine: Engine, course: Course) -> None:
        assert course.slot is not None
        engine.slots[course.slot].work(self.env.now)
        self.fleet.door.wait(engine, course.slot, self.env.now)
        course.slot = None

    def _forget(self, engine: Engine, course: Course) -> None:
        if course.kept_tokens:
            engine.keep_keys(-course.kept_tokens)
            course.kept_tokens = 0
