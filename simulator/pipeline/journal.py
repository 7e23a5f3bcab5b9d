"""What the pipeline writes into the event log, and when."""

from __future__ import annotations

from array import array
from collections.abc import Sequence
from math import nan
from typing import Any, NamedTuple, final

from simulator.eventlog import Recorder
from simulator.pipeline.rollout import Rollouts
from simulator.pipeline.views import Update
from simulator.pipeline.workload import UpdateResult


class Fate(NamedTuple):
    """What became of some rollouts together."""

    rollouts: int
    status: str
    reason: str | None
    consumed_s: float
    """NaN if nobody has taken them."""
    consumed_version: int
    """-1 if nobody has."""
    complete: bool
    """Whole groups, which were queued."""
    rewards: Sequence[float] | None


@final
class Journal:
    """Rollouts are written when the run ends, in the order in which their fate was known (`rows`); updates
    when their weights are published."""

    def __init__(self, recorder: Recorder, table: Rollouts) -> None:
        self.recorder = recorder
        self.table = table
        self.ids = array("q")
        """Rollouts in order of their fates."""
        self.fates: list[Fate] = []
        self._unpublished: list[tuple[dict[str, Any], dict[str, float]]] = []

    def trainer(self, state: str, cause: str, start_s: float, end_s: float) -> None:
        if end_s > start_s:
            self.recorder.intervals.append(("trainer", state, cause, start_s, end_s))

    def fate(
        self,
        rollout_ids: Sequence[int],
        status: str,
        *,
        reason: str | None = None,
        consumed_s: float = nan,
        consumed_version: int = -1,
        complete: bool,
        rewards: Sequence[float] | None = None,
    ) -> None:
        """This became of them."""
        if rollout_ids:
            self.ids.extend(rollout_ids)
            count = len(rollout_ids)
            self.fates.append(Fate(count, status, reason, consumed_s, consumed_version, complete, rewards))

    def trained(
        self,
        update: Update,
        rollout_ids: Sequence[int],
        result: UpdateResult,
        *,
        taken_s: float,
        wait_start_s: float,
        tokens: int,
        now_s: float,
    ) -> None:
        """An update is done."""
        if result.rewards is not None and len(result.rewards) != len(rollout_ids):
            raise ValueError(
                f"update {update.version + 1}: {len(result.rewards)} rewards for {len(rollout_ids)} rollouts"
            )
        self.fate(
            rollout_ids,
            "trained",
            consumed_s=taken_s,
            consumed_version=update.version,
            complete=True,
            rewards=result.rewards,
        )
        columns = {
            "version": update.version + 1,
            "wait_start_s": wait_start_s,
            "train_start_s": update.start_s,
            "train_end_s": now_s,
            "rollouts": len(rollout_ids),
            "tokens": tokens,
        }
        self._unpublished.append((columns, dict(result.metrics)))

    def published(self, now_s: float | None) -> None:
        """The weights of every update so far reached the engines, or (None) never will."""
        for columns, metrics in self._unpublished:
            self.recorder.add_update(metrics, published_s=now_s, **columns)
        self._unpublished.clear()
