"""The wiring: engines, door, buffer, trainer and push on one SimPy clock."""

from __future__ import annotations

from collections.abc import Callable
from typing import final

import simpy

from simulator.config import PipelineConfig, length_law, staleness_rule
from simulator.eventlog import Recorder
from simulator.ledger import Ledger
from simulator.pipeline.admission import Door
from simulator.pipeline.buffer import Buffer
from simulator.pipeline.counting import Counting
from simulator.pipeline.discards import Discards
from simulator.pipeline.engines import engines_of
from simulator.pipeline.environment_door import EnvironmentDoor, environments_of
from simulator.pipeline.failing import Failing
from simulator.pipeline.fleet import Fleet
from simulator.pipeline.instant import just_before
from simulator.pipeline.journal import Journal
from simulator.pipeline.push import Push
from simulator.pipeline.result import Run, result
from simulator.pipeline.rollout import Rollouts
from simulator.pipeline.router import least_loaded, longest_free
from simulator.pipeline.stalls import Stalls
from simulator.pipeline.trainer import Trainer
from simulator.pipeline.unfinished import Unfinished
from simulator.pipeline.validation import Validation
from simulator.pipeline.watchdog import Watchdog, refuse_endless
from simulator.pipeline.workload import Workload, in_order
from simulator.rules.selection import fifo
from simulator.rules.staleness import Staleness
from simulator.streams import stream
from simulator.world.decoding import FixedSpeed
from simulator.world.failures import Faults, drawn_faults


@final
class Pipeline:
    """The parts, connected. `env` may hold other processes too; they change nothing here."""

    def __init__(
        self,
        env: simpy.Environment,
        config: PipelineConfig,
        workload: Workload,
        progress: Callable[[int], None] | None = None,
        *,
        rule: Staleness | None = None,
        faults: Faults | None = None,
    ) -> None:
        rule = rule or staleness_rule(config)
        refuse_endless(rule)
        self.env = env
        self.config = config
        self.recorder = Recorder()
        self.table = Rollouts(config.group_size)
        faults = faults or drawn_faults(config.failures, config.seed)
        self.engines = engines_of(config, faults, self.table, self.recorder.intervals)
        self.table.clocks = self.engines
        self.journal = Journal(self.recorder, self.table)
        self.ledger = Ledger()
        self.counting = Counting(config, self.ledger)
        self.unfinished = Unfinished(self.table)
        self.discards = Discards(
            env,
            table=self.table,
            ledger=self.ledger,
            journal=self.journal,
            abort=rule.abort,
            replacement=rule.replacement,
            version=lambda: self.trainer.version,
            unfinished=None if rule.selection is fifo else self.unfinished,
        )
        self.buffer = Buffer(
            env,
            table=self.table,
            rollouts_per_update=config.rollouts_per_update,
            updates_per_batch=config.updates_per_batch,
            selection=rule.selection,
            age_limit=rule.age_limit,
            overflow=rule.overflow,
            ledger=self.ledger,
            on_drop=self.discards.complete,
            unfinished=self.unfinished,
            asked_again=lambda: self.door.asked_again(),
            uniform=stream(config.seed, "selection").random,
            blocks_beyond=config.queue_capacity_rollouts if config.queue_full == "block" else None,
            hold=lambda slots: self.door.hold(slots),
        )
        self.environments = environments_of(
            env, config, workload, self.table, self.ledger, self.engines, self.buffer.add
        )
        self.validation: Validation | None = None
        self.fleet = Fleet(
            env,
            self.table,
            self.engines,
            finished=self._finished(
                self.buffer.add if self.environments is None else self.environments.finished
            ),
            emptied=lambda engine: self.push.emptied(engine),
        )
        self.door = (Door if self.environments is None else EnvironmentDoor)(
            env,
            admission=rule.admission,
            counts=self.counting.counts,
            ledger=self.ledger,
            table=self.table,
            engines=self.engines,
            router=longest_free if isinstance(config.engine, FixedSpeed) else least_loaded,
            lengths_tokens=in_order(workload, config.group_size),
            prompt_tokens=config.prompt_tokens,
            changed=self.fleet.changed,
            alternates=config.validation_priority == "among",
        )
        self.door.go_on = self.fleet.go_on
        self.door.can_hold = config.queue_full == "block"
        self.fleet.door = self.discards.door = self.door
        self.fleet.environments = self.environments
        if self.environments is not None:
            assert isinstance(self.door, EnvironmentDoor)
            self.door.environments, self.environments.fleet = self.environments, self.fleet
        if config.validate_every_updates is not None:
            self.validation = self.discards.validation = Validation(
                env,
                table=self.table,
                journal=self.journal,
                door=self.door,
                every_updates=config.validate_every_updates,
                rollouts=config.validation_rollouts,
                blocks=config.validation_blocks_trainer,
                lengths=length_law(config.lengths),
                seed=config.seed,
            )
        self.discards.fleet, self.discards.buffer = self.fleet, self.buffer
        self.push = Push(
            env,
            push_s=config.push_s,
            on_sync=rule.on_sync,
            may_publish=rule.may_publish,
            counts=self.counting.counts,
            fleet=self.fleet,
            door=self.door,
            discards=self.discards,
            journal=self.journal,
            published=self._published,
            breaks_off=faults.push_breaks_off,
            retry_s=config.failures.push_retry_s,
        )
        self.trainer = Trainer(
            env,
            config,
            table=self.table,
            buffer=self.buffer,
            push=self.push,
            workload=workload,
            ledger=self.ledger,
            journal=self.journal,
            validation=self.validation,
            door_knock=self.door.knock,
            on_take=self._colocated if rule.colocated else _nothing,
            progress=progress or _silent,
            stalls=None if faults.stalls is None else Stalls(faults.stalls),
        )
        counting = self.counting
        counting.buffer, counting.discards = self.buffer, self.discards
        counting.fleet, counting.trainer = self.fleet, self.trainer
        self.watchdog = Watchdog(
            env,
            config,
            trainer=self.trainer,
            push=self.push,
            buffer=self.buffer,
            door=self.door,
            fleet=self.fleet,
            counts=self.counting.counts,
        )
        self.failing = Failing(
            env,
            config,
            faults,
            table=self.table,
            ledger=self.ledger,
            discards=self.discards,
            door=self.door,
            buffer=self.buffer,
            fleet=self.fleet,
            push=self.push,
            watchdog=self.watchdog,
        )
        if self.failing.losses is not None:
            if self.environments is None:
                self.fleet.finished = self._finished(self.failing.losses.ended)
            else:
                self.environments.complete = self.failing.losses.ended

    def run(self, until_s: float | None = None) -> Run:
        self.door.knock()
        done = self.env.process(self.trainer.run())
        self.failing.start()
        # SimPy stops at a time or at an event, not at the first of both. This is how it does the latter.
        assert done.callbacks is not None
        done.callbacks.append(simpy.core.StopSimulation.callback)
        self.env.run(until=None if until_s is None else just_before(until_s))
        if not done.triggered:
            if until_s is None:
                self.watchdog.stuck()
            self.env._now = until_s
        return result(self)

    def _published(self, version: int) -> None:
        self.discards.too_old(version)
        self.counting.published()

    def _finished(self, usual: Callable[[int], None]) -> Callable[[int], None]:
        """What becomes of a rollout that has made its last token."""
        if self.config.validate_every_updates is None:
            return usual
        place = self.table.place

        def finished(rollout_id: int) -> None:
            if place[rollout_id] < 0:
                assert self.validation is not None
                self.validation.ended(rollout_id)
            else:
                usual(rollout_id)

        return finished

    def _colocated(self) -> None:
        self.push.pause(self.engines, "colocated")


def _silent(updates: int) -> None:
    """Nobody wants to know."""


def _nothing() -> None:
    """Engines have accelerators of their own."""
