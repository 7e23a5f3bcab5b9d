"""What did a slot do while its engine stood still for a push? It did not decode, whatever it held.

The controller knows when a request was sent and when it came back, and when engines stood still. The
simulator writes a slot's standing still as idle time of the cause `sync`; so does this.
"""

from __future__ import annotations

import bisect
from collections.abc import Iterable, Iterator, Mapping, Sequence
from operator import itemgetter
from typing import Any

Spell = tuple[float, float]
"""From, to; seconds."""


def without_stalls(
    intervals: Iterable[Mapping[str, Any]], stalls: Sequence[Spell]
) -> Iterator[dict[str, Any]]:
    """The intervals, those of decoding slots cut where their engines stood still.

    Args:
        intervals: rows of `eventlog.INTERVALS`.
        stalls: disjoint and in order; all engines stand still together.
    """
    for row in intervals:
        if row["state"] != "busy" or "/" not in row["resource"]:
            yield dict(row)
            continue
        at_s = row["start_s"]
        first = bisect.bisect_right(stalls, at_s, key=itemgetter(1))
        last = bisect.bisect_left(stalls, row["end_s"], key=itemgetter(0))
        for start_s, end_s in stalls[first:last]:
            if start_s > at_s:
                yield {**row, "start_s": at_s, "end_s": start_s}
            at_s = min(end_s, row["end_s"])
            stood_s = max(start_s, row["start_s"])
            yield {**row, "state": "idle", "cause": "sync", "start_s": stood_s, "end_s": at_s}
        if at_s < row["end_s"]:
            yield {**row, "start_s": at_s}
