"""Engines: slots that decode one rollout after another."""

from __future__ import annotations

from collections.abc import Callable, Generator
from typing import Any, TypeAlias, final

import simpy

from simulator.eventlog import Row
from simulator.pipeline.admission import Door
from simulator.pipeline.rollout import Rollout
from simulator.world.service import decode_s

Process: TypeAlias = Generator[simpy.Event, Any, None]


@final
class Occupancy:
    """When was one slot busy? Rollouts that follow each other without a gap are one interval of the log."""

    __slots__ = ("busy_since_s", "resource", "rows", "waits_since_s")

    def __init__(self, resource: str, rows: list[Row]) -> None:
        self.resource = resource
        self.rows = rows
        self.busy_since_s = 0.0
        self.waits_since_s: float | None = 0.0

    def wait(self, now_s: float) -> None:
        self.waits_since_s = now_s

    def work(self, now_s: float) -> None:
        # A wait that ends in the instant it began was no wait, only the order of that instant.
        if self.waits_since_s is not None and now_s > self.waits_since_s:
            self._row("busy", "decode", self.busy_since_s, self.waits_since_s)
            self._row("idle", "gate_closed", self.waits_since_s, now_s)
            self.busy_since_s = now_s
        self.waits_since_s = None

    def close(self, now_s: float) -> None:
        """The run ends: write down what is still open."""
        self.work(now_s)
        self._row("busy", "decode", self.busy_since_s, now_s)

    def _row(self, state: str, cause: str, start_s: float, end_s: float) -> None:
        if end_s > start_s:
            self.rows.append((self.resource, state, cause, start_s, end_s))


def slot(
    env: simpy.Environment,
    *,
    engine: int,
    seconds_per_token: float,
    door: Door,
    finished: Callable[[Rollout], None],
    occupancy: Occupancy,
) -> Process:
    """Decode until the run ends; wait at the door while no rollout may start."""
    while True:
        rollout = door.enter(engine)
        if rollout is None:
            occupancy.wait(env.now)
            rollout = yield door.wait(engine)
            occupancy.work(env.now)
        yield env.timeout(decode_s(rollout.action_tokens, seconds_per_token))
        finished(rollout)
