"""How do two pieces of work compare on a machine that others use too?"""

from __future__ import annotations

import statistics
import time
from collections.abc import Callable, Sequence


def best_seconds(
    *works: Callable[[], object], repeats: int, clock: Callable[[], float] = time.perf_counter
) -> list[float]:
    """The shortest of `repeats` runs of each, taken in turns."""
    return [min(column) for column in seconds(*works, repeats=repeats, clock=clock)]


def seconds(
    *works: Callable[[], object], repeats: int, clock: Callable[[], float] = time.perf_counter
) -> list[list[float]]:
    """Of each, all its `repeats` runs: they take turns, so that a busy machine slows all alike.

    Args:
        clock: seconds; `time.process_time` leaves out what other processes took of the core.
    """
    rounds = [[_seconds(work, clock) for work in works] for _ in range(repeats)]
    return [list(column) for column in zip(*rounds, strict=True)]


def times_as_long(ours: Sequence[float], theirs: Sequence[float]) -> str:
    """How many times as long ours took: best over best, and turn by turn the median and the middle half."""
    each = sorted(a / b for a, b in zip(ours, theirs, strict=True))
    best = min(ours) / min(theirs)
    if len(each) < 2:
        return f"{best:.2f} times as long ({len(each)} turn)"
    low, middle, high = statistics.quantiles(each, n=4, method="inclusive")
    return (
        f"{best:.2f} times as long (best), {middle:.2f} [{low:.2f}, {high:.2f}] by turn ({len(each)} turns)"
    )


def _seconds(work: Callable[[], object], clock: Callable[[], float]) -> float:
    start = clock()
    work()
    return clock() - start
