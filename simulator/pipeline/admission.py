"""The door before the slots: may the rollout that is next start now, and where?"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import ClassVar

import simpy

from simulator.ledger import Ledger
from simulator.pipeline.admission_queue import AdmissionQueue, Returning
from simulator.pipeline.engine import Engine
from simulator.pipeline.instant import ADMISSION, Turn, nothing_else_now
from simulator.pipeline.rollout import Rollouts
from simulator.pipeline.router import BestFirst, Router
from simulator.rules.admission import Admission
from simulator.rules.counts import Counts


class Door(AdmissionQueue):
    """Lets rollouts start in order of prompts, members of a group one after another.

    An answer of the rule is used up before the rule is asked again: it can only have grown since. Requests
    for validation ask no rule.
    """

    explains: ClassVar[bool] = False
    """Whether free slots of every engine say why they wait, or only of those that may be full."""

    def __init__(
        self,
        env: simpy.Environment,
        *,
        admission: Admission,
        counts: Callable[[], Counts],
        ledger: Ledger,
        table: Rollouts,
        engines: Sequence[Engine],
        router: Router,
        lengths_tokens: Iterator[int],
        prompt_tokens: int,
        changed: Callable[[Engine], None],
        alternates: bool = False,
    ) -> None:
        super().__init__(table=table, lengths_tokens=lengths_tokens, alternates=alternates)
        self.env = env
        self.planned = env._queue
        """What SimPy will do, the next thing first: `env.peek` is asked for every rollout."""
        self.admission = admission
        self.counts = counts
        self.ledger = ledger
        self.engines = engines
        self.router = router
        self.prompt_tokens = prompt_tokens
        self.changed = changed
        self.allowance = 0
        self.free_slots = 0
        self.can_hold = False
        """Can there be slots that are held?"""
        self.on_start: Callable[[int, int], int] | None = None
        """Told of each attempt's place and tokens; says how many it will make."""
        self.go_on: Callable[[Engine, int, int, float], None]
        """Lets a rollout decode on in a slot."""
        self._said: str | None = None
        """Why free slots wait, as all engines know that were not closed, since which none was told else."""
        self._turns = 0
        self._turn_is_taken = False
        for engine in engines:
            for slot in range(len(engine.slots)):
                self._free(engine, slot)

    def enter(self, engine: Engine, slot: int, now_s: float) -> bool:
        """A rollout has ended: start another in its slot at once, if that is all there is to be done now.

        If so, the engine has planned what comes next.
        """
        if self.free_slots or engine.closed or self.requests or self.has_claims:
            return False
        if self.planned and self.planned[0][0] <= now_s:
            return False
        if self.allowance < 1:
            self.allowance = self.admission(self.counts())
            if self.allowance < 1:
                return False
        if engine.asks_before_start and not self._fits(engine, now_s):
            return False
        if self.again or self.on_start is not None:
            self._start(engine, slot, now_s)
            engine.plan()
            return True
        # `_start`, spelled out: this is done for nearly every rollout
        tokens = next(self.lengths_tokens)
        if tokens < 1:
            self._refuse_length(tokens)
        place = self.next_place
        self.next_place = place + 1
        self.allowance -= 1
        self.ledger.start(tokens)
        table = self.table
        rollout_id = table.add(place, tokens, engine.index, now_s, engine.latest)
        table.position.append(engine.follow(rollout_id, slot, tokens, self.prompt_tokens, now_s))
        return True

    def wait(self, engine: Engine, slot: int, now_s: float) -> None:
        """A slot is free and no rollout may start in it yet."""
        self._free(engine, slot)
        engine.slots[slot].wait(now_s, engine.why_free)

    def knock(self) -> None:
        """Something changed that the rule may look at: ask it again, at the end of this instant."""
        if not self._turn_is_taken and self._has_work():
            self._turn_is_taken = True
            turn = Turn(self.env, ADMISSION)
            assert turn.callbacks is not None
            turn.callbacks.append(self._open)

    def knock_now(self) -> None:
        """The same, without an event if this instant is over."""
        if not self._turn_is_taken and self._has_work() and nothing_else_now(self.env):
            self._fill(self.env.now)
        else:
            self.knock()

    def _open(self, _turn: simpy.Event) -> None:
        self._turn_is_taken = False
        self._fill(self.env.now)

    def _has_work(self) -> bool:
        return self.free_slots > 0

    def _fill(self, now_s: float) -> None:
        if self.free_slots:
            touched: dict[int, Engine] = {}
            full = bool(self.returning) and not self._take_back(now_s, touched)
            self.allowance = self.admission(self.counts())
            self._give_slots(now_s, touched, full=full)

    def _give_slots(self, now_s: float, touched: dict[int, Engine], *, full: bool) -> None:
        if self.free_slots > self.held_slots and self._wants_slot() and not full:
            full = self._give_to_best(now_s, touched)
        why = "kv_full" if full else self._why_nobody_comes()
        if 0 < self.free_slots <= self.held_slots and self._wants_slot():
            why = "queue_full"
        if why != self._said:
            for engine in self.engines:
                if (engine.asks_before_start or self.explains or self.can_hold) and not engine.closed:
                    self.say_why(engine, why, now_s)
            self._said = why
        for engine in touched.values():
            self.changed(engine)

    def _give_to_best(self, now_s: float, touched: dict[int, Engine]) -> bool:
        """True if one more rollout would start, and fits nowhere."""
        best = BestFirst(self.engines, self.router, self.prompt_tokens)
        while self.free_slots > self.held_slots and self._wants_slot():
            engine = best.first(lambda engine: self._fits(engine, now_s))
            if engine is None:
                return best.refused
            self._start(engine, self._slot_of(engine, now_s), now_s)
            touched[engine.index] = engine
            best.started(engine)
        return False

    def _wants_slot(self) -> bool:
        return self.allowance > 0 or bool(self.requests)

    def _why_nobody_comes(self) -> str:
        return "gate_closed"

    def _take_back(self, now_s: float, touched: dict[int, Engine]) -> bool:
        """Start who is returning, where there is room; False if nothing else may start before one of them."""
        waiting: list[Returning] = []
        full = False
        for one in self.returning:
            engine = None
            if self.free_slots > self.held_slots:
                able = [e for e in self.engines if e.free and not e.closed and not e.down]
                new_enough = [e for e in able if e.weights.version >= self._version(one)]
                fits = [
                    e for e in new_enough if not e.asks_before_start or self._fits(e, now_s, self._made(one))
                ]
                engine = min(fits, key=self.router, default=None)
                full = full or bool(new_enough and not fits)
            if engine is None:
                waiting.append(one)
                continue
            slot = self._slot_of(engine, now_s)
            if one.rollout_id is None:
                self.start(engine, slot, one.place, one.tokens, now_s)
            else:
                self.go_on(engine, one.rollout_id, slot, now_s)
            touched[engine.index] = engine
        self._keep(waiting)
        return not full

    def _made(self, one: Returning) -> int:
        """Tokens to compute again before it decodes."""
        return 0 if one.rollout_id is None else self.table.made_before[one.rollout_id]

    def _version(self, one: Returning) -> int:
        """An engine must hold this one or a newer one: versions never decrease within a rollout."""
        return 0 if one.rollout_id is None else self.table.newest_version(one.rollout_id)

    def _slot_of(self, engine: Engine, now_s: float) -> int:
        _, slot = engine.free.popleft()
        self.free_slots -= 1
        engine.slots[slot].work(now_s)
        return slot

    def say_why(self, engine: Engine, cause: str, now_s: float) -> None:
        """Why its free slots wait from now on."""
        self._said = None
        if engine.down:
            engine.why_free_if_up = cause
            return
        if cause == engine.why_free:
            return
        engine.why_free = cause
        for _, slot in engine.free:
            engine.slots[slot].wait_for(cause, now_s)

    def _fits(self, engine: Engine, now_s: float, made: int = 0) -> bool:
        return not engine.preempted and engine.can_begin(self.prompt_tokens + made, now_s)

    def _free(self, engine: Engine, slot: int) -> None:
        engine.free.append((self._turns, slot))
        self._turns += 1
        self.free_slots += 1

    def _start(self, engine: Engine, slot: int, now_s: float) -> None:
        if self.requests and self._validation_is_next(others=self.allowance > 0):
            self.start(engine, slot, *self.requests.popleft(), now_s)
            return
        self.allowance -= 1
        if self.again:
            self.start(engine, slot, *self.again.popleft(), now_s)
            return
        tokens = next(self.lengths_tokens)
        if tokens < 1:
            self._refuse_length(tokens)
        self.next_place += 1
        self.start(engine, slot, self.next_place - 1, tokens, now_s)

    def start(self, engine: Engine, slot: int, place: int, tokens: int, now_s: float) -> None:
        """Without asking."""
        if self.on_start is not None and place >= 0:
            tokens = self.on_start(place, tokens)
        self.ledger.start(tokens, "validation" if place < 0 else "in_flight")
        rollout_id = self.table.add(place, tokens, engine.index, now_s, engine.latest)
        self.table.position.append(engine.begin(rollout_id, slot, tokens, self.prompt_tokens, now_s))
