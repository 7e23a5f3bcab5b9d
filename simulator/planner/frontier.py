"""Which settings are worth a thought, and which one is enough?"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

GAIN: Final = 0.05
"""More throughput than this is worth older data (*choice*)."""


def frontier(throughput: Sequence[float], lag: Sequence[float]) -> list[int]:
    """Indices of the settings that no other dominates, the freshest first.

    One dominates another iff it is no slower and no older, and better in one of them; of equals the first
    stays.
    """
    order = sorted(range(len(lag)), key=lambda i: (lag[i], -throughput[i], i))
    kept: list[int] = []
    for i in order:
        if not kept or throughput[i] > throughput[kept[-1]]:
            kept.append(i)
    return kept


def knee(throughput: Sequence[float], along: Sequence[int], *, gain: float = GAIN) -> int:
    """Of the settings `along` the frontier, the freshest after which none gains `gain` or more.

    Not the point furthest from the chord: that one moves when the grid grows at either end.

    Errors:
        ValueError: no settings.
    """
    if not along:
        raise ValueError("a frontier of no settings has no knee")
    most = max(throughput[i] for i in along)
    return next(i for i in along if most < (1 + gain) * throughput[i] or throughput[i] == most)
