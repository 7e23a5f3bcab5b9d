"""An engine whose steps take longer the more it runs: solved exactly from one event to the next.

The decode clock counts the tokens that every running rollout makes; see `world.decoding` for how long they
take. Between events only four numbers are needed: how many rollouts run, the tokens that they hold, the
position, and the time at which it was there.

- Prefill: a rollout that gets a slot has its prefix computed first, and all others wait for it (*choice*).
- A rollout gets a slot only if its prefix fits, with room for one token more of everyone (*choice*; without
  it, what was just preempted would come straight back).
- When keys and values fill the engine the youngest rollout leaves, oldest id first in; it keeps the tokens
  that it has made, and comes back, before anything new starts here, by computing its whole prefix again.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from heapq import heapify, heappop, heappush, heapreplace
from math import inf
from operator import itemgetter
from typing import final

from simulator.pipeline.by_age import ByAge
from simulator.pipeline.clock_record import ClockRecord
from simulator.pipeline.engine import Engine
from simulator.pipeline.occupancy import Occupancy
from simulator.pipeline.rollout import Rollouts
from simulator.pipeline.weights import TIE_STEPS, Floats, Ints
from simulator.world.decoding import LoadDependent, decoded_tokens, tokens_until_full, whole_tokens


@final
class LoadedEngine(Engine):
    """Load-dependent decoding, prefill, and a limit on keys and values."""

    __slots__ = (
        "_by_age",
        "_clock",
        "_position",
        "_record_until",
        "_time_s",
        "capacity",
        "fixed_s",
        "kv_tokens",
        "limited",
        "load",
        "per_kv_token_s",
        "per_rollout_s",
        "prefill_s_per_token",
        "prompt_tokens",
    )

    def __init__(
        self,
        index: int,
        table: Rollouts,
        slots: Sequence[Occupancy],
        *,
        load: LoadDependent,
        prompt_tokens: int,
    ) -> None:
        super().__init__(index, table, slots, unit=1.0)
        self.load = load
        self.fixed_s = load.step_fixed_s
        self.per_rollout_s = load.step_s_per_rollout
        self.per_kv_token_s = load.step_s_per_kv_token
        self.prefill_s_per_token = load.prefill_s_per_token
        self.capacity_tokens = float(load.kv_capacity_tokens or inf)
        self.capacity = self.capacity_tokens
        """What is left for rollouts that decode."""
        self.limited = load.kv_capacity_tokens is not None
        self.asks_before_start = self.limited or self.prefill_s_per_token > 0
        self.prompt_tokens = prompt_tokens
        self.kv_tokens = 0.0
        self._position = 0.0
        self._time_s = 0.0
        """When the clock was at `_position`, or will leave it, if a prefill holds it."""
        self._by_age = ByAge(table)  # kept where there is a limit
        self._clock = ClockRecord()
        self._record_until = -1.0

    def plan(self) -> None:
        heap = self.heap
        if self.vacated:
            heappop(heap)
            self.vacated = False
        if not heap or self.paused:
            if not heap:
                self.kv_tokens, self.refused_tokens = 0.0, inf
            self.next_s = inf
            return
        running = len(heap)
        position = self._position
        per_kv_token_s = self.per_kv_token_s
        step_s = self.fixed_s + self.per_rollout_s * running + per_kv_token_s * self.kv_tokens
        growth_s = per_kv_token_s * running
        if position < self._record_until:
            self._clock.add(position, self._time_s, step_s, growth_s)
        tokens = heap[0][0] - position
        if tokens < 0.0:
            tokens = 0.0
        if self.limited:
            until_full = tokens_until_full(self.capacity, self.kv_tokens, running)
            self.fills = until_full < tokens - TIE_STEPS
            if self.fills:
                tokens = until_full
        # world.decoding.decode_s, spelled out: this line runs once a rollout
        self.next_s = self._time_s + tokens * (step_s + 0.5 * growth_s * tokens)

    def finish(self) -> tuple[int, int]:
        position, rollout_id, slot = self.heap[0]
        table = self.table
        if table.courses:
            held = table.courses[rollout_id].end_tokens + table.observed_tokens[rollout_id]
        else:
            held = table.tokens[rollout_id]
        self.kv_tokens += len(self.heap) * (position - self._position)
        self.kv_tokens -= self.prompt_tokens + held
        self._position, self._time_s = position, self.next_s
        self.vacated, self.refused_tokens = True, inf
        return rollout_id, slot

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
        if now_s > self._time_s:
            self._settle(now_s)
        position = self._position
        self.kv_tokens += prefix_tokens
        self._time_s += self.prefill_s_per_token * (prefix_tokens - kept_tokens)
        entry = (position + tokens, rollout_id, slot)
        if self.limited and not self.table.courses:
            if prefix_tokens + tokens > self.capacity:
                raise ValueError(
                    f"rollout {rollout_id} needs keys and values of {prefix_tokens + tokens} tokens, engine"
                    f" {self.index} holds {self.capacity:.0f}: it could never be finished"
                )
            self._by_age.add(entry, len(self.heap))
        if self.vacated:
            self.vacated = False
            heapreplace(self.heap, entry)
        else:
            heappush(self.heap, entry)
        return position

    def preempt(self) -> tuple[int, int]:
        """Keys and values fill the engine, at `next_s`: the youngest rollout leaves its slot, to come back.

        `plan` must follow.
        """
        heap, table = self.heap, self.table
        self._position += tokens_until_full(self.capacity, self.kv_tokens, len(heap))
        self._time_s = self.next_s
        # turns end and come back in any order
        entry = max(heap, key=itemgetter(1)) if table.courses else self._by_age.pop()
        heap.remove(entry)
        heapify(heap)
        _, rollout_id, slot = entry
        self.kv_tokens, self.refused_tokens = self.capacity - self._held([entry]), inf
        made = whole_tokens(self._position - table.position[rollout_id])
        table.interrupt(rollout_id, made, self.next_s, self.latest)
        heappush(self.preempted, rollout_id)
        return rollout_id, slot

    def keep_keys(self, tokens: int) -> None:
        self.capacity -= tokens
        self.refused_tokens = inf

    def set_pace(self, factor: float, now_s: float) -> None:
        """Everything takes `factor` times as long from now on; `plan` must follow."""
        self._settle(now_s)
        self.fixed_s = factor * self.load.step_fixed_s
        self.per_rollout_s = factor * self.load.step_s_per_rollout
        self.per_kv_token_s = factor * self.load.step_s_per_kv_token
        self.prefill_s_per_token = factor * self.load.prefill_s_per_token

    def position(self, now_s: float) -> float:
        self._settle(now_s)
        return self._position

    def moments(self, publishes: Ints, positions: Floats, /) -> Floats:
        return self._clock.moments(publishes, positions)

    def moment(self, publish: int, position: float, /) -> float:
        return self._clock.moment(publish, position)

    def publish(self, version: int, now_s: float) -> None:
        super().publish(version, now_s)
        self._clock.publish()
        self._record_until = self._position + 1.0

    def can_begin(self, prefix_tokens: int, now_s: float) -> bool:
        if prefix_tokens >= self.refused_tokens or (self.vacated and self.another_ends_now()):
            return False
        if not self.limited:
            return True
        held = self.kv_tokens + self.running * self._tokens_until(now_s)
        if held + prefix_tokens + self.running + 1 <= self.capacity + TIE_STEPS:
            return True
        self.refused_tokens = prefix_tokens
        return False

    def another_ends_now(self) -> bool:
        heap, tie = self.heap, self._position + TIE_STEPS
        # the first has ended; the next is one of its two children in the heap
        return self.vacated and (
            (len(heap) > 1 and heap[1][0] <= tie) or (len(heap) > 2 and heap[2][0] <= tie)
        )

    def _settle(self, now_s: float) -> None:
        """Bring position and tokens held to this moment."""
        if now_s <= self._time_s or self.paused:
            return
        tokens = self._tokens_until(now_s)
        self._position += tokens
        self.kv_tokens += self.running * tokens
        self._time_s = now_s

    def _tokens_until(self, now_s: float) -> float:
        """That each running rollout makes between `_time_s` and `now_s`, if nothing changes."""
        running = self.running
        if now_s <= self._time_s or self.paused or not running:
            return 0.0
        step_s = self.fixed_s + self.per_rollout_s * running + self.per_kv_token_s * self.kv_tokens
        return decoded_tokens(now_s - self._time_s, step_s, self.per_kv_token_s * running)

    def _left(self, now_s: float, *, everything: bool) -> None:
        self.kv_tokens, self.refused_tokens = self._held(self.heap), inf
        self._by_age.keep(self.heap)
        if everything:
            # A prefill under way has nobody left to serve.
            self._time_s = self._paused_s if self.paused else now_s

    def _held(self, entries: Iterable[tuple[float, int, int]]) -> float:
        """Tokens of keys and values that these rollouts hold."""
        held, here, prompt_tokens = self.table.held_tokens, self._position, self.prompt_tokens
        return sum(held(i, prompt_tokens, here) for _, i, _ in entries)

    def _stop(self, now_s: float) -> None:
        self._settle(now_s)

    def _go_on(self, now_s: float, paused_s: float) -> None:  # noqa: ARG002
        self._time_s = now_s + max(0.0, self._time_s - self._paused_s)
