"""The wiring: engines, door, buffer, trainer and push on one SimPy clock."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import final

import simpy

from simulator.config import PipelineConfig, length_law, staleness_rule
from simulator.eventlog import EventLog, Recorder, Row
from simulator.ledger import Ledger, LedgerError
from simulator.pipeline import rows
from simulator.pipeline.admission import Door
from simulator.pipeline.buffer import Buffer
from simulator.pipeline.discards import Discards
from simulator.pipeline.engine import Engine
from simulator.pipeline.environment_door import EnvironmentDoor, environments_of
from simulator.pipeline.failing import Failing, speed
from simulator.pipeline.fixed_speed import FixedSpeedEngine
from simulator.pipeline.fleet import Fleet
from simulator.pipeline.journal import Journal
from simulator.pipeline.loaded import LoadedEngine
from simulator.pipeline.occupancy import Occupancy, without_pauses
from simulator.pipeline.push import Push
from simulator.pipeline.rollout import Rollouts
from simulator.pipeline.router import least_loaded, longest_free
from simulator.pipeline.stalls import Stalls
from simulator.pipeline.trainer import Trainer
from simulator.pipeline.validation import Validation
from simulator.pipeline.watchdog import Watchdog
from simulator.pipeline.workload import DrawnWorkload, Workload, in_order
from simulator.rules.counts import Counts
from simulator.rules.staleness import Staleness
from simulator.streams import stream
from simulator.world.decoding import FixedSpeed
from simulator.world.drawn import DrawnLengths
from simulator.world.failures import Faults, drawn_faults


@final
@dataclass(frozen=True, slots=True, kw_only=True)
class Run:
    """What a run leaves behind."""

    config: PipelineConfig
    log: EventLog
    ledger: Ledger
    end_s: float
    failures: Mapping[str, int] = field(default_factory=dict)
    """How often did what go wrong?"""


def drawn_lengths(config: PipelineConfig) -> DrawnLengths:
    """The lengths that `config` asks for."""
    return DrawnLengths(
        length_law(config.lengths), config.seed, config.group_size, correlation=config.length_correlation
    )


def run(
    config: PipelineConfig,
    workload: Workload | None = None,
    *,
    rule: Staleness | None = None,
    progress: Callable[[int], None] | None = None,
    until_s: float | None = None,
    faults: Faults | None = None,
) -> Run:
    """Simulate until `config.updates` are trained and the last of them is published.

    Args:
        workload: what a rollout is and what an update does; None draws lengths from the configured law.
        rule: in place of the decisions that `config` names.
        progress: called with the number of updates done, after each.
        until_s: stop earlier, just before anything happens at this time.
        faults: in place of those that `config` draws.

    Errors:
        ValueError: `until_s` is no time after 0.
        LedgerError: a rollout or a token was lost.
        StalledError: nothing can happen any more and updates are missing, or none was done for too long.
        Whatever the workload raises.
    """
    if until_s is not None and not 0 < until_s < math.inf:
        raise ValueError(f"until_s must be finite and greater than 0, got {until_s}")
    workload = workload or DrawnWorkload(drawn_lengths(config))
    pipeline = Pipeline(simpy.Environment(), config, workload, progress, rule=rule, faults=faults)
    return pipeline.run(until_s)


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
        _check(rule)
        self.env = env
        self.config = config
        self.recorder = Recorder()
        self.table = Rollouts(config.group_size)
        faults = faults or drawn_faults(config.failures, config.seed)
        self.engines = self._engines(faults)
        self.table.clocks = self.engines
        self.journal = Journal(self.recorder, self.table)
        self.ledger = Ledger()
        self._started_at_publish = self._outstanding_at_publish = 0
        self.discards = Discards(
            env,
            table=self.table,
            ledger=self.ledger,
            journal=self.journal,
            abort=rule.abort,
            replacement=rule.replacement,
            version=lambda: self.trainer.version,
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
            unfinished=self.discards.unfinished,
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
            counts=self.counts,
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
            counts=self.counts,
            fleet=self.fleet,
            door=self.door,
            discards=self.discards,
            journal=self.journal,
            published=self._published,
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
        self.watchdog = Watchdog(
            env,
            config,
            trainer=self.trainer,
            push=self.push,
            buffer=self.buffer,
            door=self.door,
            fleet=self.fleet,
            counts=self.counts,
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

    def counts(self) -> Counts:
        """What rules may look at. A copy counts with the rollouts, and what failed was never started."""
        held, copies = self.ledger.rollouts, self.buffer.copies
        generated = self.ledger.generated_rollouts - held["validation"]
        return Counts(
            submitted_rollouts=generated - held["dropped"] + copies.kept,
            running_rollouts=held["in_flight"],
            outstanding_rollouts=held["in_flight"] + held["waiting"] + held["queued"] + copies.queued,
            waiting_rollouts=held["waiting"],
            queued_rollouts=held["queued"] + copies.queued,
            trained_rollouts=held["trained"] + copies.trained,
            submitted_since_publish_rollouts=self._started() - self._started_at_publish,
            outstanding_at_publish_rollouts=self._outstanding_at_publish,
            taken_batches=self.buffer.taken_batches,
            engine_version_batches=self.fleet.version // self.config.updates_per_batch,
            trainer_version_batches=self.trainer.version // self.config.updates_per_batch,
            batch_rollouts=self.config.batch_rollouts,
        )

    def run(self, until_s: float | None = None) -> Run:
        self.door.knock()
        done = self.env.process(self.trainer.run())
        self.failing.start()
        if until_s is None:
            assert done.callbacks is not None
            done.callbacks.append(simpy.core.StopSimulation.callback)
            self.env.run()
            if not done.triggered:
                self.watchdog.stuck()
        else:
            # SimPy stops at a time or at an event, not at the first of both. This is how it does the latter.
            assert done.callbacks is not None
            done.callbacks.append(simpy.core.StopSimulation.callback)
            self.env.run(until=until_s)
        return self._result()

    def _engines(self, faults: Faults) -> list[Engine]:
        config = self.config
        engines: list[Engine] = []
        for i in range(config.engines):
            model = speed(config, faults, i)
            slots = [
                Occupancy(f"engine-{i}/slot-{slot}", self.recorder.intervals)
                for slot in range(config.slots // config.engines)
            ]
            if isinstance(model, FixedSpeed):
                engines.append(
                    FixedSpeedEngine(i, self.table, slots, seconds_per_token=model.seconds_per_token)
                )
            else:
                engines.append(
                    LoadedEngine(i, self.table, slots, load=model, prompt_tokens=config.prompt_tokens)
                )
        return engines

    def _published(self, version: int) -> None:
        self.discards.too_old(version)
        held = self.ledger.rollouts
        self._started_at_publish = self._started()
        copies = self.buffer.copies.queued
        self._outstanding_at_publish = held["in_flight"] + held["waiting"] + held["queued"] + copies

    def _started(self) -> int:
        """For training, but for what failed."""
        started = self.ledger.generated_rollouts - self.ledger.rollouts["validation"]
        return started - self.discards.lost_rollouts

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

    def _result(self) -> Run:
        """Write down what is unfinished, and compare the ledger with what really lies where."""
        self.ledger.check()
        unfinished = {
            "training": self.buffer.copies.distinct(self.trainer.training),
            "queued": self.buffer.queued(),
            "waiting": self.buffer.not_queued(),
            "in_flight": self.fleet.running(),
        }
        for state, ids in unfinished.items():
            found = (len(ids), self.buffer.tokens(ids))
            if found != (self.ledger.rollouts[state], self.ledger.tokens[state]):
                raise LedgerError(
                    f"{found} rollouts and tokens are {state}, but the ledger says {self.ledger}"
                )
            taken_s = self.trainer.taken_s if state == "training" else math.nan
            self.journal.fate(ids, state, consumed_s=taken_s, complete=state in ("training", "queued"))
        if self.validation is not None:
            self.validation.close(self.ledger)
        rows.write(self.journal)
        self.journal.published(None)
        self._close_occupancies()
        return Run(
            config=self.config,
            log=self.recorder.log(),
            ledger=self.ledger,
            end_s=self.env.now,
            failures=self.failing.counts(),
        )

    def _close_occupancies(self) -> None:
        now_s = self.env.now
        for engine in self.engines:
            if engine.paused:
                engine.resume(now_s)
            for slot in engine.slots:
                slot.close(now_s)
        pauses = {slot.resource: engine.pauses for engine in self.engines for slot in engine.slots}
        intervals = self.recorder.intervals
        if any(engine.pauses for engine in self.engines):
            cut: list[Row] = []
            for row in intervals:
                cut += without_pauses([row], pauses.get(row[0], ()))
            intervals[:] = cut


def _check(rule: Staleness) -> None:
    """Refuse what could never go on."""
    if rule.colocated and (rule.on_sync.running == "drain" or rule.on_sync.engines != "together"):
        raise ValueError(
            "colocated engines stand still until all hold the new weights: they cannot"
            f" {rule.on_sync.running} {rule.on_sync.engines}"
        )
    if rule.on_sync.engines == "when_idle" and rule.on_sync.running != "keep":
        raise ValueError(f"an engine that is idle has nothing to {rule.on_sync.running}")


def _silent(updates: int) -> None:
    """Nobody wants to know."""


def _nothing() -> None:
    """Engines have accelerators of their own."""
