"""An engine that takes as long for every token, whatever it runs."""

from __future__ import annotations

from array import array
from bisect import bisect_left
from collections.abc import Sequence
from heapq import heappop, heapreplace
from math import inf
from typing import final

import numpy as np

from simulator.pipeline.engine import Engine
from simulator.pipeline.occupancy import Occupancy
from simulator.pipeline.rollout import Rollouts
from simulator.pipeline.weights import TIE_STEPS, Floats, Ints


@final
class FixedSpeedEngine(Engine):
    """Every token takes as long. The decode clock is time, less the pauses before it."""

    __slots__ = ("_behind_s", "_behinds", "_stops")

    def __init__(
        self, index: int, table: Rollouts, slots: Sequence[Occupancy], *, seconds_per_token: float
    ) -> None:
        super().__init__(index, table, slots, unit=seconds_per_token)
        self._behind_s = 0.0
        self._stops = array("d")
        self._behinds = array("d", [0.0])

    def plan(self) -> None:
        if self.vacated:
            heappop(self.heap)
            self.vacated = False
        self.next_s = self.heap[0][0] + self._behind_s if self.heap and not self.paused else inf

    def position(self, now_s: float) -> float:
        return (self._paused_s if self.paused else now_s) - self._behind_s

    def moments(self, publishes: Ints, positions: Floats, /) -> Floats:  # noqa: ARG002 - it knows all pauses
        # A token that ends as a pause begins was made before it.
        pauses = np.searchsorted(np.array(self._stops), positions - TIE_STEPS * self.unit)
        return np.asarray(positions + np.array(self._behinds)[pauses])

    def moment(self, publish: int, position: float, /) -> float:  # noqa: ARG002
        return position + self._behinds[bisect_left(self._stops, position - TIE_STEPS * self.unit)]

    def begin(
        self,
        rollout_id: int,
        slot: int,
        tokens: int,
        prefix_tokens: int,  # noqa: ARG002 - prompts cost nothing
        now_s: float,
        *,
        kept_tokens: int = 0,  # noqa: ARG002
    ) -> float:
        position = now_s - self._behind_s
        self._push((position + tokens * self.unit, rollout_id, slot))
        return position

    def follow(self, rollout_id: int, slot: int, tokens: int, prefix_tokens: int, now_s: float) -> float:  # noqa: ARG002
        behind_s, heap = self._behind_s, self.heap
        position = now_s - behind_s
        heapreplace(heap, (position + tokens * self.unit, rollout_id, slot))
        self.vacated = False
        self.next_s = heap[0][0] + behind_s
        return position

    def _left(self, now_s: float, *, everything: bool) -> None:
        pass

    def _stop(self, now_s: float) -> None:
        self._stops.append(now_s - self._behind_s)

    def _go_on(self, now_s: float, paused_s: float) -> None:  # noqa: ARG002
        self._behind_s += paused_s
        self._behinds.append(self._behind_s)
