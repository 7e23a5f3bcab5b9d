"""How do two pieces of work compare on a machine that others use too?"""

from __future__ import annotations

import time
from collections.abc import Callable


def best_seconds(
    *works: Callable[[], object], repeats: int, clock: Callable[[], float] = time.perf_counter
) -> list[float]:
    """The shortest of `repeats` runs of each: they take turns, so that a busy machine slows all alike.

    Args:
        clock: seconds; `time.process_time` leaves out what other processes took of the core.
    """
    rounds = [[_seconds(work, clock) for work in works] for _ in range(repeats)]
    return [min(column) for column in zip(*rounds, strict=True)]


def _seconds(work: Callable[[], object], clock: Callable[[], float]) -> float:
    start = clock()
    work()
    return clock() - start
