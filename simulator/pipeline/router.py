"""Where does a rollout go, of the engines that could take it?"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from heapq import heapify, heappop, heapreplace
from typing import TypeAlias, final

from simulator.pipeline.engine import Engine

Router: TypeAlias = Callable[[Engine], tuple[int, int]]
"""The engine of which it is least gets the rollout. No two engines may have the same, and one that gets no
rollout must keep its own."""


def longest_free(engine: Engine) -> tuple[int, int]:
    """The slot that has waited longest: at fixed speed all are alike."""
    return engine.free[0]


def least_loaded(engine: Engine) -> tuple[int, int]:
    """The engine that runs least, the first of equals."""
    return engine.running, engine.index


@final
class BestFirst:
    """Engines that have free slots, while rollouts start on them and nothing leaves them.

    An engine without room is not asked twice.
    """

    def __init__(self, engines: Sequence[Engine], router: Router, prefix_tokens: int) -> None:
        self.engines = engines
        self.router = router
        able = [e for e in engines if e.free and not e.closed and not e.down]
        best = [(router(e), e.index) for e in able if e.refused_tokens > prefix_tokens and not e.preempted]
        self.refused = len(best) < len(able)
        """Has one a free slot, but no room?"""
        heapify(best)
        self._best = best

    def first(self, fits: Callable[[Engine], bool]) -> Engine | None:
        """The best that a rollout fits in, if any. If that gets it, `started` must follow."""
        while self._best:
            engine = self.engines[self._best[0][1]]
            if not engine.asks_before_start or fits(engine):
                return engine
            heappop(self._best)
            self.refused = True
        return None

    def started(self, engine: Engine) -> None:
        """The first got a rollout."""
        if engine.free:
            heapreplace(self._best, (self.router(engine), engine.index))
        else:
            heappop(self._best)
