"""Who waits for what? Asked when nothing can happen any more, or no update was done for too long."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Final, NoReturn, final

import simpy

from simulator.config import PipelineConfig
from simulator.pipeline.admission import Door
from simulator.pipeline.buffer import Buffer
from simulator.pipeline.engine import Engine, Process
from simulator.pipeline.fleet import Fleet
from simulator.pipeline.outages import Background
from simulator.pipeline.push import Push
from simulator.pipeline.trainer import Trainer
from simulator.rules.admission import UNLIMITED
from simulator.rules.counts import Counts
from simulator.rules.selection import fifo
from simulator.rules.staleness import Staleness
from simulator.stalled import StalledError

_SHOWN: Final = 4
"""Engines and groups of a kind that are named one by one."""


@final
class Watchdog:
    """Ends a run that makes no progress."""

    def __init__(
        self,
        env: simpy.Environment,
        config: PipelineConfig,
        *,
        trainer: Trainer,
        push: Push,
        buffer: Buffer,
        door: Door,
        fleet: Fleet,
        counts: Callable[[], Counts],
    ) -> None:
        self.env = env
        self.config = config
        self.trainer = trainer
        self.push = push
        self.buffer = buffer
        self.door = door
        self.fleet = fleet
        self.counts = counts
        self.failures: Callable[[], Mapping[str, int]] = dict
        """How often did what go wrong?"""

    def stuck(self) -> NoReturn:
        """Nothing is planned that could bring the run on.

        Raises:
            StalledError: always.
        """
        self.give_up("nothing can happen any more")

    def give_up(self, what: str) -> NoReturn:
        """It would go on like that for ever.

        Raises:
            StalledError: always.
        """
        raise StalledError(self.message(what))

    def watch(self, limit_s: float, background: Background) -> Process:
        """Look whether there was an update within `limit_s`.

        Raises:
            StalledError: there was none.
        """
        while True:
            yield from background.wait(self.trainer.updated_s + limit_s - self.env.now)
            if self.env.now >= self.trainer.updated_s + limit_s:
                self.give_up(f"no update for {limit_s:g} s")

    def message(self, what: str) -> str:
        """One sentence for each who waits."""
        done = f"{self.trainer.version} of {self.config.updates} updates are done"
        parts = [self._trainer(), self._door(), self._engines(), self._groups(), self._failures()]
        return f"{what} at {self.env.now:.6g} s, {done}. " + " ".join(part for part in parts if part)

    def _trainer(self) -> str:
        if self.push.waits_for is not None:
            return f"The trainer waits to push: {self.push.waits_for}."
        if self.trainer.training:
            return f"The trainer works on {len(self.trainer.training)} rollouts."
        queued, needed = self.buffer.queued_rollouts, self.buffer.batch_rollouts
        said = f"The trainer waits for a batch: {queued} rollouts are queued, {needed} are needed"
        if queued >= needed and self.buffer.selection is not fifo:
            said += f", and {getattr(self.buffer.selection, '__qualname__', 'the selection')} takes none"
        if self.buffer.held:
            said += f"; {len(self.buffer.held)} groups are held, since the queue is full"
        return said + "."

    def _door(self) -> str:
        counts = self.counts()
        allowance = max(self.door.admission(counts), 0)
        number = "any number" if allowance >= UNLIMITED else f"{allowance} more"
        said = (
            f"The door: the rule lets {number} start,"
            f" {counts.running_rollouts} run, {counts.waiting_rollouts} wait for their groups"
        )
        if self.door.returning:
            said += f"; {len(self.door.returning)} wait to begin again or to go on"
        return said + "."

    def _engines(self) -> str:
        return "Engines: " + _some([_engine(engine) for engine in self.fleet.engines], "engines") + "."

    def _failures(self) -> str:
        counts = self.failures()
        named = [f"{name.replace('_', ' ')} {times}" for name, times in counts.items()]
        return f"So far: {', '.join(named)}." if named else ""

    def _groups(self) -> str:
        size, place = self.config.group_size, self.buffer.table.place
        waiting = {
            group: sorted({*range(size)} - {place[i] % size for i in members})
            for group, members in sorted(self.buffer.incomplete.items())
        }
        if not waiting:
            return ""
        named = [f"group {group} misses {', '.join(map(str, missing))}" for group, missing in waiting.items()]
        return "Incomplete: " + _some(named, "groups") + "."


def refuse_endless(rule: Staleness) -> None:
    """Raise ValueError where a run could never go on."""
    if rule.colocated and (rule.on_sync.running == "drain" or rule.on_sync.engines != "together"):
        raise ValueError(
            "colocated engines stand still until all hold the new weights: they cannot"
            f" {rule.on_sync.running} {rule.on_sync.engines}"
        )
    if rule.on_sync.engines == "when_idle" and rule.on_sync.running != "keep":
        raise ValueError(f"an engine that is idle has nothing to {rule.on_sync.running}")


def _engine(engine: Engine) -> str:
    said = f"engine-{engine.index} runs {engine.running} of {len(engine.slots)}"
    states = [
        word
        for word, holds in (
            ("crashed", engine.down),
            ("paused", engine.paused),
            ("closed", engine.closed),
            (f"{len(engine.preempted)} preempted", bool(engine.preempted)),
        )
        if holds
    ]
    if engine.free and engine.why_free not in states:
        states.append(engine.why_free)
    return f"{said} ({', '.join(states)})" if states else said


def _some(named: Sequence[str], plural: str) -> str:
    rest = len(named) - _SHOWN
    return "; ".join(named[:_SHOWN]) + (f"; and {rest} more {plural}" if rest > 0 else "")
