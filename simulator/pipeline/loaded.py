"""An engine whose steps take longer the more it runs: solved exactly from one event to the next.

Who gets a slot, who ends and who has to leave; its clock is in `loaded_clock`.

- Prefill: a rollout that gets a slot has its prefix computed first, and all others wait for it (*choice*).
- A rollout gets a slot only if its prefix fits, with room for one token more of everyone (*choice*; without
  it, what was just preempted would come straight back).
- When keys and values fill the engine the youngest rollout leaves, oldest id first in; it keeps the tokens
  that it has made, and comes back, before anything new starts here, by computing its whole prefix again.
"""

from __future__ import annotations

from collections.abc import Iterable
from heapq import heapify, heappop, heappush, heapreplace
from math import inf
from operator import itemgetter
from typing import NoReturn, final

from simulator.pipeline.loaded_clock import LoadedClock
from simulator.pipeline.weights import TIE_STEPS
from simulator.world.decoding import tokens_until_full, whole_tokens


@final
class LoadedEngine(LoadedClock):
    """Load-dependent decoding, prefill, and a limit on keys and values."""

    __slots__ = ()

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
                self._refuse(rollout_id, prefix_tokens + tokens)
            self._by_age.add(entry)
        if self.vacated:
            self.vacated = False
            heapreplace(self.heap, entry)
        else:
            heappush(self.heap, entry)
        return position

    def follow(self, rollout_id: int, slot: int, tokens: int, prefix_tokens: int, now_s: float) -> float:  # noqa: ARG002 - its clock knows
        # `begin` and `plan`, spelled out: this is done for nearly every rollout
        heap, position, per_kv_token_s = self.heap, self._position, self.per_kv_token_s
        entry = (position + tokens, rollout_id, slot)
        limited = self.limited
        if limited:
            if prefix_tokens + tokens > self.capacity:
                self._refuse(rollout_id, prefix_tokens + tokens)
            self._by_age.add(entry)
        heapreplace(heap, entry)
        self.vacated = False
        self.kv_tokens = kv_tokens = self.kv_tokens + prefix_tokens
        self._time_s = time_s = self._time_s + self.prefill_s_per_token * prefix_tokens
        running = len(heap)
        step_s = self.fixed_s + self.per_rollout_s * running + per_kv_token_s * kv_tokens
        growth_s = per_kv_token_s * running
        if position < self._record_until:
            self._clock.add(position, time_s, step_s, growth_s)
        more = heap[0][0] - position
        if more < 0.0:
            more = 0.0
        if limited:
            room = self.capacity - kv_tokens
            until_full = room / running if room > 0.0 else 0.0
            self.fills = until_full < more - TIE_STEPS
            if self.fills:
                more = until_full
        self.next_s = time_s + more * (step_s + 0.5 * growth_s * more)
        return position

    def _refuse(self, rollout_id: int, tokens: int) -> NoReturn:
        raise ValueError(
            f"rollout {rollout_id} needs keys and values of {tokens} tokens, engine {self.index} holds"
            f" {self.capacity:.0f}: it could never be finished"
        )

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

    def can_begin(self, prefix_tokens: int, now_s: float) -> bool:
        vacated = self.vacated
        if prefix_tokens >= self.refused_tokens or (vacated and self.another_ends_now()):
            return False
        if not self.limited:
            return True
        running, held = len(self.heap) - vacated, self.kv_tokens
        if now_s > self._time_s:
            held += running * self._tokens_until(now_s)
        if held + prefix_tokens + running + 1 <= self.capacity + TIE_STEPS:
            return True
        self.refused_tokens = prefix_tokens
        return False

    def another_ends_now(self) -> bool:
        heap, tie = self.heap, self._position + TIE_STEPS
        # the first has ended; the next is one of its two children in the heap
        return self.vacated and (
            (len(heap) > 1 and heap[1][0] <= tie) or (len(heap) > 2 and heap[2][0] <= tie)
        )

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
