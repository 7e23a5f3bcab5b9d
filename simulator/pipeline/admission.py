"""The door before the slots: which rollout starts next, may it start now, and where?"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterator, Sequence
from typing import ClassVar, TypeAlias

import simpy

from simulator.ledger import Ledger
from simulator.pipeline.engine import Engine
from simulator.pipeline.instant import ADMISSION, Turn, nothing_else_now
from simulator.pipeline.rollout import Rollouts
from simulator.rules.admission import Admission
from simulator.rules.counts import Counts

Router: TypeAlias = Callable[[Sequence[Engine]], Engine]
"""Which of the engines that could take a rollout gets it?"""


def longest_free(engines: Sequence[Engine]) -> Engine:
    """The slot that has waited longest: at fixed speed all are alike."""
    return min(engines, key=lambda engine: engine.free[0])


def least_loaded(engines: Sequence[Engine]) -> Engine:
    """The engine that runs least, the first of equals."""
    return min(engines, key=lambda engine: (engine.running, engine.index))


class Door:
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
        self.env = env
        self.planned = env._queue
        """What SimPy will do, the next thing first: `env.peek` is asked for every rollout."""
        self.admission = admission
        self.counts = counts
        self.ledger = ledger
        self.table = table
        self.engines = engines
        self.router = router
        self.lengths_tokens = lengths_tokens
        self.prompt_tokens = prompt_tokens
        self.changed = changed
        self.allowance = 0
        self.next_place = 0
        self.again: deque[tuple[int, int]] = deque()
        """Places and tokens of rollouts that were thrown away and will be tried again, before new ones."""
        self.requests: deque[tuple[int, int]] = deque()
        """Places and tokens of validation rollouts that have not started."""
        self.alternates = alternates
        """Whether they take turns with rollouts for training, or come before them."""
        self._validation_came_last = False
        self.free_slots = 0
        self._turns = 0
        self._turn_is_taken = False
        for engine in engines:
            for slot in range(len(engine.slots)):
                self._free(engine, slot)

    def enter(self, engine: Engine, slot: int, now_s: float) -> bool:
        """A slot is free: start a rollout in it at once, if that is all there is to be done now."""
        if self.free_slots or engine.closed or self.requests:
            return False
        if self.planned and self.planned[0][0] <= now_s:
            return False
        if self.allowance < 1:
            self.allowance = self.admission(self.counts())
            if self.allowance < 1:
                return False
        if engine.asks_before_start and not self._fits(engine, now_s):
            return False
        self._start(engine, slot, now_s)
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

    def ask_again(self, place: int, tokens: int) -> None:
        """A rollout was thrown away; another attempt comes before anything new of its kind."""
        (self.again if place >= 0 else self.requests).append((place, tokens))

    def skip(self, group: int) -> None:
        """Start no more members of `group`."""
        size = self.table.group_size
        while self.next_place // size == group and self.next_place % size:
            next(self.lengths_tokens)
            self.next_place += 1

    def _open(self, _turn: simpy.Event) -> None:
        self._turn_is_taken = False
        self._fill(self.env.now)

    def _has_work(self) -> bool:
        return self.free_slots > 0

    def _fill(self, now_s: float) -> None:
        if self.free_slots:
            self.allowance = self.admission(self.counts())
            self._give_slots(now_s)

    def _give_slots(self, now_s: float) -> None:
        touched: dict[int, Engine] = {}
        full = False
        while self.free_slots and self._wants_slot():
            able = [e for e in self.engines if e.free and not e.closed]
            if fits := [e for e in able if not e.asks_before_start or self._fits(e, now_s)]:
                engine = fits[0] if len(fits) == 1 else self.router(fits)
                _, slot = engine.free.popleft()
                self.free_slots -= 1
                engine.slots[slot].work(now_s)
                self._start(engine, slot, now_s)
                touched[engine.index] = engine
            else:
                full = bool(able)
                break
        for engine in self.engines:
            if (engine.asks_before_start or self.explains) and not engine.closed:
                self.say_why(engine, "kv_full" if full else self._why_nobody_comes(), now_s)
        for engine in touched.values():
            self.changed(engine)

    def _wants_slot(self) -> bool:
        return self.allowance > 0 or bool(self.requests)

    def _why_nobody_comes(self) -> str:
        return "gate_closed"

    def _validation_is_next(self, *, others: bool) -> bool:
        if not self.requests:
            return False
        if self.alternates and others:
            self._validation_came_last = not self._validation_came_last
            return self._validation_came_last
        return True

    def say_why(self, engine: Engine, cause: str, now_s: float) -> None:
        """Why its free slots wait from now on."""
        if cause == engine.why_free:
            return
        engine.why_free = cause
        for _, slot in engine.free:
            engine.slots[slot].wait_for(cause, now_s)

    def _fits(self, engine: Engine, now_s: float) -> bool:
        return not engine.preempted and engine.can_begin(self.prompt_tokens, now_s)

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
        place = self.next_place
        tokens = next(self.lengths_tokens)
        if tokens < 1:
            prompt, member = divmod(place, self.table.group_size)
            raise ValueError(
                f"prompt {prompt}, member {member}: a length of {tokens} tokens; at least 1 is needed"
            )
        self.next_place = place + 1
        # `start`, spelled out: it is done for every rollout
        table = self.table
        self.ledger.start(tokens)
        rollout_id = table.add(place, tokens, engine.index, now_s, engine.latest)
        table.position.append(engine.begin(rollout_id, slot, tokens, self.prompt_tokens, now_s))

    def start(self, engine: Engine, slot: int, place: int, tokens: int, now_s: float) -> None:
        """Without asking."""
        self.ledger.start(tokens, "validation" if place < 0 else "in_flight")
        rollout_id = self.table.add(place, tokens, engine.index, now_s, engine.latest)
        self.table.position.append(engine.begin(rollout_id, slot, tokens, self.prompt_tokens, now_s))
