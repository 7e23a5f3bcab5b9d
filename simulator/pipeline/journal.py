"""What the pipeline writes into the event log, and when."""

from __future__ import annotations

from typing import Any, final

from simulator.eventlog import Recorder
from simulator.pipeline.rollout import Rollout, Update
from simulator.pipeline.workload import UpdateResult


@final
class Journal:
    """A rollout's row is written once, when its fate is known; an update's when its weights are published."""

    def __init__(self, recorder: Recorder) -> None:
        self.recorder = recorder
        self._unpublished: list[tuple[dict[str, Any], dict[str, float]]] = []

    def trainer(self, state: str, cause: str, start_s: float, end_s: float) -> None:
        if end_s > start_s:
            self.recorder.intervals.append(("trainer", state, cause, start_s, end_s))

    def trained(
        self, update: Update, result: UpdateResult, *, wait_start_s: float, taken_s: float, now_s: float
    ) -> None:
        rollouts, rewards = update.rollouts, result.rewards
        if rewards is None:
            rewards = [None] * len(rollouts)  # type: ignore[list-item]
        elif len(rewards) != len(rollouts):
            raise ValueError(
                f"update {update.version + 1}: {len(rewards)} rewards for {len(rollouts)} rollouts"
            )
        for rollout, reward in zip(rollouts, rewards, strict=True):
            self.rollout(
                rollout, "trained", consumed_s=taken_s, consumed_version=update.version, reward=reward
            )
        columns = {
            "version": update.version + 1,
            "wait_start_s": wait_start_s,
            "train_start_s": update.start_s,
            "train_end_s": now_s,
            "rollouts": len(rollouts),
            "tokens": sum(rollout.action_tokens for rollout in rollouts),
        }
        self._unpublished.append((columns, dict(result.metrics)))

    def published(self, now_s: float | None) -> None:
        """The weights of every update so far reached the engines, or (None) never will."""
        for columns, metrics in self._unpublished:
            self.recorder.add_update(metrics, published_s=now_s, **columns)
        self._unpublished.clear()

    def rollout(
        self,
        rollout: Rollout,
        status: str,
        *,
        consumed_s: float | None = None,
        consumed_version: int | None = None,
        reward: float | None = None,
        reason: str | None = None,
    ) -> None:
        """One row of `rollouts`, in the order of the schema, and the rollout's segments."""
        segments = rollout.segments
        first, last = (segments[0].version, segments[-1].version) if segments else (None, None)
        rollout_id = rollout.rollout_id
        self.recorder.rollouts.append(
            (
                *(rollout_id, rollout.prompt_id, rollout.group_id, rollout.member, rollout.engine),
                *(rollout.started_s, rollout.started_s, rollout.finished_s),
                *(rollout.enqueued_s, rollout.enqueued_s, consumed_s),
                *(first, last, first, consumed_version),
                *(rollout.action_tokens, 0, 1, reward, status, reason),
            )
        )
        append = self.recorder.segments.append
        for segment in segments:
            append((rollout_id, *segment))
