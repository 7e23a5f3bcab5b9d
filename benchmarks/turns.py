"""How do two pieces of work compare on a machine that others use too?"""

from __future__ import annotations

import time
from collections.abc import Callable


def best_seconds(*works: Callable[[], object], repeats: int) -> list[float]:
    """The shortest of `repeats` runs of each: they take turns, so that a busy machine slows all alike."""
    rounds = [[_seconds(work) for work in works] for _ in range(repeats)]
    return [min(column) for column in zip(*rounds, strict=True)]


def _seconds(work: Callable[[], object]) -> float:
    start = time.perf_counter()
    work()
    return time.perf_counter() - start
