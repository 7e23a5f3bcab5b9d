"""When does the trainer stand still? Spells of it, looked up as time goes on."""

from __future__ import annotations

from math import inf
from typing import final

from simulator.world.failures import Spells, in_time


@final
class Stalls:
    """The trainer's stalls, in order. They are times, not events: nobody else sees them."""

    def __init__(self, spells: Spells) -> None:
        self._spells = in_time(spells)
        self._start_s = self._end_s = 0.0

    def following(self, now_s: float) -> tuple[float, float]:
        """Start and end of the stall that is under way or comes next; infinite if there is none."""
        while self._end_s <= now_s:
            able_s, stalled_s = next(self._spells, (inf, inf))
            self._start_s = self._end_s + able_s
            self._end_s = self._start_s + stalled_s
        return self._start_s, self._end_s
