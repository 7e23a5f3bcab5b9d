"""What does the trainer's side do: wait for a batch, train on it, push, and again?"""

from __future__ import annotations

import asyncio
import contextlib
import math
from collections.abc import Awaitable, Callable, Mapping, Sequence
from pathlib import Path
from typing import Any, Protocol, final

from algorithms.rollout import Batch
from full_runs.configs.record import FullConfig
from full_runs.controller.buffer import Buffer
from full_runs.controller.engines import Engines
from full_runs.controller.journal import Journal, rollout_row
from full_runs.controller.records import Group
from full_runs.controller.versions import keep_only, of_version
from full_runs.push import Prepare, Weights
from full_runs.trainer.message import batch_of
from simulator.rules.counts import Counts
from simulator.stalled import StalledError


class Trainer(Protocol):
    """What is asked of a trainer; its calls block."""

    def train(self, batch: Batch, prompts: Sequence[Sequence[int]], /) -> dict[str, float]: ...

    def save_checkpoint(self, folder: Path, /) -> None: ...

    def resume(self, folder: Path, /) -> int: ...

    def pushed(self) -> int: ...


@final
class Training:
    """Updates, one after another.

    Args:
        config: of the run.
        trainer: that makes them.
        engines: that get the weights.
        buffer: that batches come from.
        journal: that is told.
        prepare: makes weights ready to be pushed.
        checkpoints: folder for checkpoints; the last one stays.
        measure: asks the engines how good their policy is.
    """

    def __init__(
        self,
        config: FullConfig,
        trainer: Trainer,
        engines: Engines,
        buffer: Buffer,
        journal: Journal,
        *,
        prepare: Prepare,
        checkpoints: Path,
        measure: Callable[[], Awaitable[dict[str, float]]],
    ) -> None:
        self.config = config
        self.trainer = trainer
        self.engines = engines
        self.buffer = buffer
        self.journal = journal
        self.prepare = prepare
        self.checkpoints = checkpoints
        self.measure = measure
        self.version = self._kept = self._measured = 0
        self.changed = asyncio.Event()
        """Set whenever a batch might be there, or nothing runs any more."""
        self.crashed: Callable[[], BaseException | None] = lambda: None
        """An error of our own, somewhere else in the controller; it ends the run."""

    async def resume(self, version: int) -> Weights:
        """Go back to a checkpoint; its weights.

        Raises:
            TrainerError: from the trainer.
            ValueError: the checkpoint is another one than its name says.
        """
        checkpoint = of_version(self.checkpoints, version)
        if (done := await asyncio.to_thread(self.trainer.resume, checkpoint)) != version:
            raise ValueError(f"{checkpoint} holds {done} updates")
        self.version = self._kept = self._measured = version
        return await self.prepare(version)

    async def update(self) -> dict[str, float]:
        """Wait for a batch, train on it, and push if it is time; what the update saw.

        Raises:
            StalledError: no batch or no answer came for the configured time, or no engine is left.
            TrainerError, NoEngineError: from those two.
        """
        wait_start_s = self.journal.clock()
        groups = await self._batch()
        train_start_s = self.journal.clock()
        self.journal.interval("trainer", "idle", "no_batch", wait_start_s, train_start_s)
        metrics = await self._train(groups)
        train_end_s = self.journal.clock()
        self.journal.interval("trainer", "busy", "policy_update", train_start_s, train_end_s)
        self.version += 1
        self.buffer.trained(groups)
        rows = [row for group in groups for row in self._rows(group, consumed_s=train_start_s)]
        self.journal.write_all("rollout", rows)
        self.journal.write(
            "update",
            version=self.version,
            wait_start_s=wait_start_s,
            train_start_s=train_start_s,
            train_end_s=train_end_s,
            rollouts=len(rows),
            tokens=sum(row["action_tokens"] for row in rows),
            metrics=_finite(metrics),
        )
        if self.version % self.config.updates_per_push == 0:
            metrics |= await self._push()
            # With no engine there, nobody can be asked; later, then.
            if self.engines.serving() and self.version - self._measured >= self.config.measure_every:
                metrics |= await self._measure()
            if self.version - self._kept >= self.config.updates_per_checkpoint:
                await self._checkpoint()
        return metrics

    async def _measure(self) -> dict[str, float]:
        """The trainer waits, so that no push falls in between."""
        start_s, limit_s = self.journal.clock(), self.config.stall_limit_s
        try:
            found = await asyncio.wait_for(self.measure(), limit_s)
        except TimeoutError:
            raise StalledError(f"engines did not answer held-out prompts in {limit_s:.0f} s") from None
        self.journal.interval("trainer", "idle", "validation", start_s, self.journal.clock())
        self.journal.write("measured", version=self.version, metrics=_finite(found))
        self._measured = self.version
        return found

    async def _checkpoint(self) -> None:
        """Only here, right after a push, do engines and checkpoint hold the same weights."""
        start_s, folder = self.journal.clock(), of_version(self.checkpoints, self.version)
        await asyncio.to_thread(self.trainer.save_checkpoint, folder)
        self.journal.interval("trainer", "busy", "checkpoint", start_s, self.journal.clock())
        # It counts from this line on; before, the one before it does.
        self.journal.write("checkpoint", version=self.version)
        self.journal.sync()
        self._kept = self.version
        keep_only(self.checkpoints, (folder,))

    async def _batch(self) -> list[Group]:
        batch: list[Group] | None = None

        def is_there() -> bool:
            nonlocal batch
            batch = self.buffer.take(self.version)
            return batch is not None

        await self._wait_for(is_there, "a batch")
        assert batch is not None
        return batch

    async def _push(self) -> dict[str, float]:
        rule, since_s = self.buffer.rule, self.journal.clock()
        await self._wait_for(lambda: rule.may_publish(self.counts()), "leave to push")
        start_s = self.journal.clock()
        self.journal.interval("trainer", "idle", "no_leave_to_push", since_s, start_s)
        weights = await self.prepare(self.version)
        saved_s = self.journal.clock()
        pushed = await self.engines.push(weights, self.version)
        await asyncio.to_thread(self.trainer.pushed)
        end_s = self.journal.clock()
        self.journal.interval("trainer", "busy", "push", start_s, end_s)
        self.journal.write(
            # With no engine there, nobody holds it yet: the next push publishes it, or a newer one.
            "push" if pushed.engines else "push_to_none",
            version=self.version,
            published_s=end_s,
            save_s=saved_s - start_s,
            stood_still_s=pushed.stood_still_s,
            failed=list(pushed.failed),
            tensors=pushed.tensors,
            compared=pushed.compared,
        )
        self.buffer.published()
        return {"push_s": end_s - start_s, "engines_stood_still_s": pushed.stood_still_s}

    def counts(self) -> Counts:
        """What rules may look at now."""
        return self.buffer.counts(engine_version=self.engines.version, trainer_version=self.version)

    async def _wait_for(self, is_so: Callable[[], bool], what: str) -> None:
        """Until it is so, asked again whenever something changed.

        Raises:
            StalledError: it took too long, or no engine is left.
        """
        end_s = self.journal.clock() + self.config.stall_limit_s
        while True:
            self.changed.clear()
            if (error := self.crashed()) is not None:
                raise error
            if is_so():
                return
            left_s = end_s - self.journal.clock()
            if left_s <= 0 or not self.engines.is_left():
                why = "no engine is left" if left_s > 0 else f"in {self.config.stall_limit_s:.0f} s none came"
                raise StalledError(f"the trainer waits for {what}, and {why}: {self.buffer.ledger}")
            with contextlib.suppress(TimeoutError):
                await asyncio.wait_for(self.changed.wait(), left_s)

    async def _train(self, groups: list[Group]) -> dict[str, float]:
        members = [made for group in groups for made in group.members]
        rollouts = [made.played.rollout for made in members]
        prompts = [made.played.prompt for made in members]
        metrics = await asyncio.to_thread(self.trainer.train, batch_of(rollouts), prompts)
        oldest = [self.version - made.oldest_version for made in members]
        return metrics | {"oldest_lag_max": float(max(oldest)), "oldest_lag_mean": sum(oldest) / len(oldest)}

    def _rows(self, group: Group, *, consumed_s: float) -> list[dict[str, Any]]:
        """What is known of its rollouts, now that they are trained on."""
        return [
            rollout_row(
                made.asked, made, status="trained", group_ready_s=group.ready_s,
                consumed_s=consumed_s, consumed_version=self.version - 1,
            )
            for made in group.distinct
        ]  # fmt: skip


def _finite(metrics: Mapping[str, float]) -> dict[str, float | None]:
    """JSON knows no NaN."""
    return {name: value if math.isfinite(value) else None for name, value in metrics.items()}
