"""What do rules see? Counts of rollouts and batches, from the ledger and the parts that know."""

from __future__ import annotations

from typing import final

from simulator.config import PipelineConfig
from simulator.ledger import Ledger
from simulator.pipeline.buffer import Buffer
from simulator.pipeline.discards import Discards
from simulator.pipeline.fleet import Fleet
from simulator.pipeline.trainer import Trainer
from simulator.rules.counts import Counts


@final
class Counting:
    """Asked at any time, and told of each publish."""

    buffer: Buffer
    discards: Discards
    fleet: Fleet
    trainer: Trainer

    def __init__(self, config: PipelineConfig, ledger: Ledger) -> None:
        self.config = config
        self.ledger = ledger
        self._started_at_publish = self._outstanding_at_publish = 0

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

    def published(self) -> None:
        """Engines have just got weights."""
        held = self.ledger.rollouts
        self._started_at_publish = self._started()
        copies = self.buffer.copies.queued
        self._outstanding_at_publish = held["in_flight"] + held["waiting"] + held["queued"] + copies

    def _started(self) -> int:
        """For training, but for what failed."""
        started = self.ledger.generated_rollouts - self.ledger.rollouts["validation"]
        return started - self.discards.lost_rollouts
