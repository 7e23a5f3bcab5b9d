"""The trainer: wait for a batch, train on it update by update, push when it is time to, and again."""

from __future__ import annotations

from collections.abc import Callable, Generator, Sequence
from typing import Any, final

import simpy

from simulator.config import PipelineConfig
from simulator.ledger import Ledger
from simulator.pipeline.buffer import Buffer
from simulator.pipeline.engine import Process
from simulator.pipeline.journal import Journal
from simulator.pipeline.push import Push
from simulator.pipeline.rollout import Rollouts
from simulator.pipeline.stalls import Stalls
from simulator.pipeline.validation import Validation
from simulator.pipeline.views import Update, Views
from simulator.pipeline.workload import Workload, without_copies
from simulator.world.service import busiest_rank_tokens, fixed_and_per_token


@final
class Trainer:
    """Versions count its optimizer updates."""

    def __init__(
        self,
        env: simpy.Environment,
        config: PipelineConfig,
        *,
        table: Rollouts,
        buffer: Buffer,
        push: Push,
        workload: Workload,
        ledger: Ledger,
        journal: Journal,
        validation: Validation | None,
        door_knock: Callable[[], None],
        on_take: Callable[[], None],
        progress: Callable[[int], None],
        stalls: Stalls | None = None,
    ) -> None:
        self.env = env
        self.config = config
        self.table = table
        self.buffer = buffer
        self.push = push
        self.workload = workload
        self.ledger = ledger
        self.journal = journal
        self.validation = validation
        self.door_knock = door_knock
        self.on_take = on_take
        self.progress = progress
        self.policy_update_s = fixed_and_per_token(config.policy_update_s, config.policy_update_s_per_token)
        passes = (
            ("log_prob", config.log_prob_s, config.log_prob_s_per_token),
            ("reference", config.reference_s, config.reference_s_per_token),
        )
        self.passes = [
            (cause, fixed_and_per_token(fixed_s, s_per_token))
            for cause, fixed_s, s_per_token in passes
            if fixed_s or s_per_token
        ]
        """Over a whole batch, before its first update, with the weights that the trainer holds then."""
        self.version = 0
        self.training: list[int] = []
        """Taken from the queue; the updates on them are not done yet."""
        self.taken_s = 0.0
        self.updated_s = 0.0
        """When the last update was done."""
        self.stalls = stalls

    def run(self) -> Process:
        while self.version < self.config.updates:
            waits_since_s = self.env.now
            idle_since_s = yield from self._take(waits_since_s)
            self.journal.trainer("idle", "no_batch", idle_since_s, self.env.now)
            for index in range(self.config.updates_per_batch):
                yield from self._update(index, waits_since_s)
            if self.version % self.config.updates_per_push == 0:
                yield from self.push.run(self.version)
                self.journal.published(self.env.now)
                self.workload.publish(self.version)
                if self.validation is not None:
                    yield from self.validation.run(self.version)
            self.door_knock()

    def _take(self, since_s: float) -> Generator[Any, Any, float]:
        """Wait for the next batch: since when nothing else was in the way. `training` holds it afterwards."""
        if self.stalls is not None:
            since_s = yield from self._stand_still(self.stalls, since_s)
        while (batch := self.buffer.take(self.version)) is None:
            self.door_knock()  # what was dropped on the way may be replaced
            yield self.buffer.batch_may_be_ready()
            if self.stalls is not None:
                since_s = yield from self._stand_still(self.stalls, since_s)
        self.training = batch
        self.taken_s = self.env.now
        self.on_take()
        self.door_knock()
        return since_s

    def _update(self, index: int, waits_since_s: float) -> Process:
        env, config = self.env, self.config
        ids = self.training[: config.rollouts_per_update]
        rollouts = self.buffer.copies.distinct(ids)
        tokens = self.buffer.tokens(rollouts)
        start_s = env.now
        update = Update(
            version=self.version, index_in_batch=index, rollouts=Views(self.table, ids), start_s=start_s
        )
        result = self.workload.train(update)
        if index == 0:
            for cause, pass_s in self.passes:
                yield from self._busy(cause, pass_s(self._busiest_rank_tokens(self.training)))
        for _ in range(config.critic_updates):
            yield from self._busy("critic_update", config.critic_update_s)
        yield from self._busy("policy_update", self.policy_update_s(self._busiest_rank_tokens(ids)))
        self.ledger.move("training", "trained", len(rollouts), tokens)
        self.buffer.copies.move("training", "trained", len(ids) - len(rollouts))
        self.journal.trained(
            update,
            rollouts,
            without_copies(result, ids, rollouts),
            taken_s=self.taken_s,
            wait_start_s=start_s if index else waits_since_s,
            tokens=tokens,
            now_s=env.now,
        )
        del self.training[: config.rollouts_per_update]
        self.version += 1
        self.updated_s = env.now
        self.progress(self.version)

    def _busiest_rank_tokens(self, ids: Sequence[int]) -> int:
        """What one rank has to go through: tokens that were made, and those that environments returned."""
        observed = self.table.observed_tokens
        if self.config.data_parallel == 1 and not observed:
            return self.buffer.tokens(ids)
        tokens = [self.table.tokens[i] + observed.get(i, 0) for i in ids]
        return busiest_rank_tokens(tokens, self.config.data_parallel, self.config.data_parallel_balance)

    def _busy(self, cause: str, duration_s: float) -> Process:
        start_s = self.env.now
        if self.stalls is not None:
            start_s, duration_s = yield from self._in_between(self.stalls, cause, duration_s)
        yield self.env.timeout(duration_s)
        self.journal.trainer("busy", cause, start_s, self.env.now)

    def _in_between(
        self, stalls: Stalls, cause: str, duration_s: float
    ) -> Generator[Any, Any, tuple[float, float]]:
        """Work until no stall is in the way of the rest: since when, and how long that takes."""
        while (begins_s := stalls.following(self.env.now)[0]) < self.env.now + duration_s:
            start_s = self.env.now
            if begins_s > start_s:
                yield self.env.timeout(begins_s - start_s)
                self.journal.trainer("busy", cause, start_s, self.env.now)
                duration_s -= self.env.now - start_s
            yield from self._stand_still(stalls, self.env.now)
        return self.env.now, duration_s

    def _stand_still(self, stalls: Stalls, since_s: float) -> Generator[Any, Any, float]:
        """If there is a stall now, wait for its end: since when the trainer waits for something else.

        A push under way is not held up (*choice*). What of a stall passes without a batch to train on is a
        wait for that batch.
        """
        begins_s, ends_s = stalls.following(self.env.now)
        if begins_s > self.env.now:
            return since_s
        self.buffer.is_away()
        self.journal.trainer("idle", "no_batch", since_s, self.env.now)
        start_s = self.env.now
        yield self.env.timeout(ends_s - start_s)
        self.journal.trainer("idle", "stalled", start_s, self.env.now)
        return self.env.now
