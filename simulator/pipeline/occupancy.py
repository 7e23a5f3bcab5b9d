"""When was a slot busy, and why not?

Rollouts that follow each other without a gap are one row of the log. An engine that stands still stops all
its slots: its pauses are kept once and cut out of the slots' busy time when the run ends.

Prefill is part of `decode`. Every rollout that starts stops all others of its engine for a moment, so a cause
of its own would take two rows more for every start and slot: starts times slots of them, where now a slot
that never idles is one row. What it took in all is `prefill_s_per_token` times the prefixes that were
computed: the prompt at each start, and all of a rollout that comes back without its keys.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Sequence
from typing import TypeAlias, final

from simulator.eventlog import Row

Pause: TypeAlias = tuple[float, float, str]
"""Start and end in seconds, and cause."""


@final
class Occupancy:
    """One slot's time: decoding, or waiting for a rollout."""

    __slots__ = ("busy_since_s", "cause", "resource", "rows", "waits_since_s")

    def __init__(self, resource: str, rows: list[Row]) -> None:
        self.resource = resource
        self.rows = rows
        self.busy_since_s = 0.0
        self.waits_since_s: float | None = 0.0
        self.cause = "gate_closed"

    def wait(self, now_s: float, cause: str = "gate_closed") -> None:
        self.waits_since_s = now_s
        self.cause = cause

    def wait_for(self, cause: str, now_s: float) -> None:
        """It waits on, for another reason."""
        if self.waits_since_s is not None and cause != self.cause:
            self.work(now_s)
            self.wait(now_s, cause)

    def work(self, now_s: float) -> None:
        # A wait that ends in the instant it began was no wait, only the order of that instant.
        if self.waits_since_s is not None and now_s > self.waits_since_s:
            self._row("busy", "decode", self.busy_since_s, self.waits_since_s)
            self._row("idle", self.cause, self.waits_since_s, now_s)
            self.busy_since_s = now_s
        self.waits_since_s = None

    def close(self, now_s: float) -> None:
        """The run ends: write down what is still open."""
        self.work(now_s)
        self._row("busy", "decode", self.busy_since_s, now_s)

    def _row(self, state: str, cause: str, start_s: float, end_s: float) -> None:
        if end_s > start_s:
            self.rows.append((self.resource, state, cause, start_s, end_s))


def without_pauses(rows: Sequence[Row], pauses: Sequence[Pause]) -> list[Row]:
    """Busy rows of an engine's slots, with what falls into its pauses idle.

    Args:
        pauses: disjoint, in order.
    """
    if not pauses:
        return list(rows)
    ends = [end_s for _, end_s, _ in pauses]
    cut: list[Row] = []
    for row in rows:
        resource, state, cause, start_s, end_s = row
        if state == "busy":
            for pause_s, resume_s, why in pauses[bisect_right(ends, start_s) :]:
                if pause_s >= end_s:
                    break
                if pause_s > start_s:
                    cut.append((resource, state, cause, start_s, pause_s))
                cut.append((resource, "idle", why, max(pause_s, start_s), min(resume_s, end_s)))
                start_s = resume_s
        if end_s > start_s:
            cut.append((resource, state, cause, start_s, end_s))
    return cut
