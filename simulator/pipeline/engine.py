"""Engines: slots that decode, and the clock that their rollouts share.

An engine keeps its running rollouts in a heap, by the position of its *decode clock* at which they end. The
clock of an engine of fixed speed (`fixed_speed`) is time itself, less its pauses; that of a load-dependent
one (`loaded`) counts the tokens that every running rollout makes. Either way a position is passed by all
alike, so that a change of speed, a pause or a push moves no entry of the heap.

Engines are passive: `fleet` asks for the next thing that happens and lets it happen.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections import deque
from collections.abc import Container, Generator, Sequence
from heapq import heapify, heappop, heappush, heapreplace
from math import inf
from typing import Any, TypeAlias

import simpy

from simulator.pipeline.occupancy import Occupancy, Pause
from simulator.pipeline.rollout import Rollouts
from simulator.pipeline.weights import TIE_STEPS, Floats, Ints, Weights
from simulator.world.decoding import whole_tokens

Process: TypeAlias = Generator[simpy.Event, Any, None]


class Engine(ABC):
    """Slots, the rollouts in them, and the weights that make their tokens."""

    __slots__ = (
        "_paused_s",
        "_why_paused",
        "asks_before_start",
        "away",
        "capacity_tokens",
        "closed",
        "down",
        "fills",
        "free",
        "heap",
        "index",
        "latest",
        "next_s",
        "paused",
        "pauses",
        "preempted",
        "refused_tokens",
        "slots",
        "table",
        "unit",
        "vacated",
        "wants_weights",
        "weights",
        "why_free",
        "why_free_if_up",
    )

    def __init__(self, index: int, table: Rollouts, slots: Sequence[Occupancy], *, unit: float) -> None:
        self.index = index
        self.table = table
        self.slots = slots
        self.unit = unit
        """What one token moves the decode clock on."""
        self.weights = Weights()
        self.latest = 0
        """Index of the latest publish."""
        self.heap: list[tuple[float, int, int]] = []
        """Position at which it ends, rollout and slot."""
        self.vacated = False
        """The first of the heap has ended; its place is taken by the next to start, or by `plan`."""
        self.free: deque[tuple[int, int]] = deque()
        """Slots without a rollout, each with the number of its turn."""
        self.preempted: list[int] = []
        """Rollouts that had to leave and come back first, oldest first (a heap)."""
        self.away: set[int] = set()
        """Rollouts whose environments work, and that will come back."""
        self.next_s = inf
        """When the first rollout ends, or the keys and values fill the engine; as of `plan`."""
        self.fills = False
        """Which of the two."""
        self.paused = False
        self.closed = False
        """Nothing new starts here until weights have arrived."""
        self.why_free = "gate_closed"
        """Why its free slots wait."""
        self.down = False
        """It has crashed, and is not back yet."""
        self.why_free_if_up = "gate_closed"
        """Why they would wait, were it not."""
        self.wants_weights = False
        """It will fetch newer ones once it is empty."""
        self.capacity_tokens = inf
        """Of keys and values, in all."""
        self.refused_tokens = inf
        """A prefix as long as this finds no room before something leaves: what is held only grows."""
        self.asks_before_start = False
        """Whether `can_begin` may say no."""
        self.pauses: list[Pause] = []
        self._paused_s = 0.0
        self._why_paused = ""

    @property
    def running(self) -> int:
        return len(self.heap) - self.vacated

    @property
    def empty(self) -> bool:
        """Nothing runs, and nothing will come back."""
        return self.running == 0 and not self.preempted and not self.away

    def keep_keys(self, tokens: int) -> None:  # noqa: B027 - only some engines hold keys and values
        """Of a rollout that does not decode; negative: no longer."""

    @abstractmethod
    def plan(self) -> None:
        """Find out what happens next, after anything has changed."""

    @abstractmethod
    def position(self, now_s: float) -> float:
        """Of the decode clock."""

    @abstractmethod
    def moments(self, publishes: Ints, positions: Floats, /) -> Floats:
        """Seconds at which the decode clock passed `positions`, each within a token after its publish."""

    @abstractmethod
    def moment(self, publish: int, position: float, /) -> float:
        """`moments` of one."""

    def can_begin(self, prefix_tokens: int, now_s: float) -> bool:  # noqa: ARG002 - only some engines fill
        """Is there room for one rollout more, and does nothing else come first?"""
        return True

    def another_ends_now(self) -> bool:
        """After `finish`: is the next rollout at its end, too? Asked where a prefill could delay it."""
        return False

    def finish(self) -> tuple[int, int]:
        """The first rollout ends, at `next_s`: its id and its slot. `begin` or `plan` must follow."""
        self.vacated = True
        _, rollout_id, slot = self.heap[0]
        return rollout_id, slot

    @abstractmethod
    def begin(
        self,
        rollout_id: int,
        slot: int,
        tokens: int,
        prefix_tokens: int,
        now_s: float,
        *,
        kept_tokens: int = 0,
    ) -> float:
        """A rollout gets a slot, to make `tokens` after a prefix: its position. `plan` must follow.

        Args:
            kept_tokens: of the prefix, whose keys and values need not be computed.
        """

    def follow(self, rollout_id: int, slot: int, tokens: int, prefix_tokens: int, now_s: float) -> float:
        """`begin`, at the moment and in the slot where another ended; and `plan`."""
        position = self.begin(rollout_id, slot, tokens, prefix_tokens, now_s)
        self.plan()
        return position

    def _push(self, entry: tuple[float, int, int]) -> None:
        if self.vacated:
            self.vacated = False
            heapreplace(self.heap, entry)
        else:
            heappush(self.heap, entry)

    def end_now(self, now_s: float) -> list[tuple[int, int]]:
        """Take out what has made its last token but for rounding: ids and slots; `plan` must follow.

        Called before a pause or an abort, which would tear such a rollout's end away from its time.
        """
        if self.paused:
            return []
        self._drop_vacated()
        tie = self.position(now_s) + TIE_STEPS * self.unit
        if not self.heap or self.heap[0][0] > tie:
            return []
        out = sorted((rollout_id, slot) for position, rollout_id, slot in self.heap if position <= tie)
        if out:
            self.heap = [entry for entry in self.heap if entry[0] > tie]
            heapify(self.heap)
            for rollout_id, _ in out:
                self.table.finished_s[rollout_id] = now_s
                self.table.after[rollout_id] = self.latest
            self._left(now_s, everything=False)
        return out

    def remove(self, now_s: float, which: Container[int] | None = None) -> list[tuple[int, int]]:
        """Stop all running rollouts, or those of `which`: their ids and slots, oldest first.

        The token under way is lost; `plan` must follow.
        """
        self._drop_vacated()
        here = self.position(now_s)
        out = []
        for _, rollout_id, slot in self.heap:
            if which is None or rollout_id in which:
                made = whole_tokens((here - self.table.position[rollout_id]) / self.unit)
                self.table.interrupt(rollout_id, made, now_s, self.latest)
                out.append((rollout_id, slot))
        gone = {rollout_id for rollout_id, _ in out}
        self.heap = [entry for entry in self.heap if entry[1] not in gone]
        heapify(self.heap)
        self._left(now_s, everything=which is None)
        return sorted(out)

    def publish(self, version: int, now_s: float) -> None:
        """These weights make every token that begins from now on."""
        self.weights.publish(version, now_s, self.position(now_s))
        self.latest += 1

    def pause(self, now_s: float, why: str) -> None:
        """The decode clock stops; `plan` must follow."""
        self._stop(now_s)
        self.paused, self._paused_s, self._why_paused = True, now_s, why

    def resume(self, now_s: float) -> None:
        """The decode clock goes on; `plan` must follow."""
        if now_s > self._paused_s:
            self.pauses.append((self._paused_s, now_s, self._why_paused))
        self.paused = False
        self._go_on(now_s, now_s - self._paused_s)

    def _drop_vacated(self) -> None:
        """Nobody has taken the place of the rollout that ended."""
        if self.vacated:
            heappop(self.heap)
            self.vacated = False

    @abstractmethod
    def _left(self, now_s: float, *, everything: bool) -> None:
        """Rollouts were removed."""

    @abstractmethod
    def _stop(self, now_s: float) -> None: ...

    @abstractmethod
    def _go_on(self, now_s: float, paused_s: float) -> None: ...
