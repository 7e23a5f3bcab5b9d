"""The wiring: engines, door, buffer, trainer and push on one SimPy clock."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import final

import simpy

from simulator.config import PipelineConfig, length_law, staleness_rule
from simulator.eventlog import EventLog, Recorder
from simulator.ledger import Ledger, LedgerError
from simulator.pipeline.admission import Door
from simulator.pipeline.buffer import Buffer
from simulator.pipeline.engine import Occupancy, slot
from simulator.pipeline.journal import Journal
from simulator.pipeline.push import Push
from simulator.pipeline.rollout import Rollout
from simulator.pipeline.trainer import Trainer
from simulator.pipeline.weights import Weights
from simulator.pipeline.workload import DrawnWorkload, Workload
from simulator.rules.counts import Counts
from simulator.world.drawn import DrawnLengths


@final
@dataclass(frozen=True, slots=True, kw_only=True)
class Run:
    """What a run leaves behind."""

    config: PipelineConfig
    log: EventLog
    ledger: Ledger
    end_s: float


def drawn_lengths(config: PipelineConfig) -> DrawnLengths:
    """The lengths that `config` asks for."""
    return DrawnLengths(
        length_law(config.lengths), config.seed, config.group_size, correlation=config.length_correlation
    )


def run(
    config: PipelineConfig,
    workload: Workload | None = None,
    *,
    progress: Callable[[int], None] | None = None,
    until_s: float | None = None,
) -> Run:
    """Simulate until `config.updates` are trained and the last of them is published.

    Args:
        workload: what a rollout is and what an update does; None draws lengths from the configured law.
        progress: called with the number of updates done, after each.
        until_s: stop earlier, just before anything happens at this time.

    Errors:
        ValueError: `until_s` is no time after 0.
        LedgerError: a rollout or a token was lost.
        RuntimeError: nothing can happen any more and updates are missing.
        Whatever the workload raises.
    """
    if until_s is not None and not 0 < until_s < math.inf:
        raise ValueError(f"until_s must be finite and greater than 0, got {until_s}")
    workload = workload or DrawnWorkload(drawn_lengths(config))
    return Pipeline(simpy.Environment(), config, workload, progress).run(until_s)


@final
class Pipeline:
    """The parts, connected. `env` may hold other processes too; they change nothing here."""

    def __init__(
        self,
        env: simpy.Environment,
        config: PipelineConfig,
        workload: Workload,
        progress: Callable[[int], None] | None = None,
    ) -> None:
        rule = staleness_rule(config)
        self.env = env
        self.config = config
        self.recorder = Recorder()
        self.weights = Weights()
        self.journal = Journal(self.recorder, self.weights, config.seconds_per_token)
        self.ledger = Ledger()
        self.buffer = Buffer(
            env,
            group_size=config.group_size,
            batch_rollouts=config.batch_rollouts,
            age_limit=rule.age_limit,
            overflow=rule.overflow,
            ledger=self.ledger,
            on_drop=self._dropped,
        )
        self.door = Door(
            env,
            admission=rule.admission,
            counts=self.counts,
            ledger=self.ledger,
            weights=self.weights,
            length_tokens=workload.length_tokens,
            group_size=config.group_size,
            seconds_per_token=config.seconds_per_token,
        )
        self.push = Push(
            env,
            push_s=config.push_s,
            may_publish=rule.may_publish,
            counts=self.counts,
            weights=self.weights,
            journal=self.journal,
            published=self._published,
        )
        self._generated_at_publish = self._outstanding_at_publish = 0
        self.trainer = Trainer(
            env,
            config,
            buffer=self.buffer,
            push=self.push,
            workload=workload,
            ledger=self.ledger,
            journal=self.journal,
            door_knock=self.door.knock,
            progress=progress or _silent,
        )
        self.occupancies = [
            Occupancy(f"engine-{engine}/slot-{i}", self.recorder.intervals)
            for engine in range(config.engines)
            for i in range(config.slots // config.engines)
        ]

    def counts(self) -> Counts:
        """What rules may look at."""
        held = self.ledger.rollouts
        return Counts(
            submitted_rollouts=self.ledger.generated_rollouts - held["dropped"],
            running_rollouts=held["in_flight"],
            outstanding_rollouts=held["in_flight"] + held["waiting"] + held["queued"],
            waiting_rollouts=held["waiting"],
            queued_rollouts=held["queued"],
            trained_rollouts=held["trained"],
            submitted_since_publish_rollouts=self.ledger.generated_rollouts - self._generated_at_publish,
            outstanding_at_publish_rollouts=self._outstanding_at_publish,
            taken_batches=self.buffer.taken_batches,
            engine_version_batches=self.weights.version // self.config.updates_per_batch,
            trainer_version_batches=self.trainer.version // self.config.updates_per_batch,
            batch_rollouts=self.config.batch_rollouts,
        )

    def _published(self) -> None:
        self._generated_at_publish = self.ledger.generated_rollouts
        self._outstanding_at_publish = self.counts().outstanding_rollouts

    def run(self, until_s: float | None = None) -> Run:
        for i, occupancy in enumerate(self.occupancies):
            self.env.process(
                slot(
                    self.env,
                    engine=i // (self.config.slots // self.config.engines),
                    seconds_per_token=self.config.seconds_per_token,
                    door=self.door,
                    finished=self._finished,
                    occupancy=occupancy,
                )
            )
        done = self.env.process(self.trainer.run())
        if until_s is None:
            self.env.run(until=done)
        else:
            # SimPy stops at a time or at an event, not at the first of both. This is how it does the latter.
            assert done.callbacks is not None
            done.callbacks.append(simpy.core.StopSimulation.callback)
            self.env.run(until=until_s)
        return self._result()

    def _finished(self, rollout: Rollout) -> None:
        weights = self.weights
        rollout.finished_s = self.env.now
        rollout.publishes_after = weights.latest
        rollout.publishes_before = weights.first_index(
            rollout.started_s, rollout.publishes_before, rollout.seconds_per_token
        )
        del self.door.in_flight[rollout.rollout_id]
        self.buffer.add(rollout)
        self.push.rollout_finished()

    def _dropped(self, rollout: Rollout, reason: str) -> None:
        self.journal.dropped(rollout, reason, version=self.trainer.version, now_s=self.env.now)
        self.door.knock()

    def _result(self) -> Run:
        """Write down what is unfinished, and compare the ledger with what really lies where."""
        unfinished = {
            "training": self.trainer.training,
            "queued": [rollout for group in self.buffer.queue for rollout in group],
            "waiting": [rollout for group in self.buffer.incomplete.values() for rollout in group],
            "in_flight": list(self.door.in_flight.values()),
        }
        for state, rollouts in unfinished.items():
            found = (len(rollouts), sum(rollout.action_tokens for rollout in rollouts))
            if found != (self.ledger.rollouts[state], self.ledger.tokens[state]):
                raise LedgerError(
                    f"{found} rollouts and tokens are {state}, but the ledger says {self.ledger}"
                )
            self.journal.unfinished(state, rollouts)
        self.journal.write_rollouts()
        self.journal.published(None)
        for occupancy in self.occupancies:
            occupancy.close(self.env.now)
        return Run(config=self.config, log=self.recorder.log(), ledger=self.ledger, end_s=self.env.now)


def _silent(updates: int) -> None:
    """Nobody wants to know."""
