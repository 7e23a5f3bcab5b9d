"""What the pipeline writes into the event log, and when."""

from __future__ import annotations

from collections.abc import Sequence
from operator import attrgetter
from typing import Any, Final, final

import numpy as np
from numpy.typing import NDArray

from simulator.eventlog import Recorder
from simulator.pipeline.rollout import Rollout, Update
from simulator.pipeline.weights import Weights, cut_many_at_publishes
from simulator.pipeline.workload import UpdateResult


@final
class Journal:
    """Rollouts are written when the run ends, in the order in which their fate was known; updates
    when their weights are published."""

    def __init__(self, recorder: Recorder, weights: Weights, seconds_per_token: float) -> None:
        self.recorder = recorder
        self.weights = weights
        self.seconds_per_token = seconds_per_token
        self._rollouts: list[Rollout] = []
        self._unpublished: list[tuple[dict[str, Any], dict[str, float]]] = []

    def trainer(self, state: str, cause: str, start_s: float, end_s: float) -> None:
        if end_s > start_s:
            self.recorder.intervals.append(("trainer", state, cause, start_s, end_s))

    def trained(
        self, update: Update, result: UpdateResult, *, wait_start_s: float, tokens: int, now_s: float
    ) -> None:
        """An update is done."""
        rollouts, rewards = update.rollouts, result.rewards
        if rewards is not None:
            if len(rewards) != len(rollouts):
                raise ValueError(
                    f"update {update.version + 1}: {len(rewards)} rewards for {len(rollouts)} rollouts"
                )
            for rollout, reward in zip(rollouts, rewards, strict=True):
                rollout.reward = float(reward)
        for rollout in rollouts:
            rollout.status = "trained"
            rollout.consumed_version = update.version
        self._rollouts += rollouts
        columns = {
            "version": update.version + 1,
            "wait_start_s": wait_start_s,
            "train_start_s": update.start_s,
            "train_end_s": now_s,
            "rollouts": len(rollouts),
            "tokens": tokens,
        }
        self._unpublished.append((columns, dict(result.metrics)))

    def published(self, now_s: float | None) -> None:
        """The weights of every update so far reached the engines, or (None) never will."""
        for columns, metrics in self._unpublished:
            self.recorder.add_update(metrics, published_s=now_s, **columns)
        self._unpublished.clear()

    def dropped(self, rollout: Rollout, reason: str, *, version: int, now_s: float) -> None:
        rollout.status, rollout.reason = "dropped", reason
        rollout.consumed_s, rollout.consumed_version = now_s, version
        self._rollouts.append(rollout)

    def unfinished(self, status: str, rollouts: Sequence[Rollout]) -> None:
        """The run ended before anything became of these."""
        for rollout in rollouts:
            rollout.status = status
        self._rollouts += rollouts

    def write_rollouts(self) -> None:
        """Rows of `rollouts`, and the segments of those that finished."""
        rollouts = self._rollouts
        finished = np.array([rollout.finished_s is not None for rollout in rollouts], dtype=bool)
        rows_read = list(map(attrgetter(*_READ), rollouts))
        columns = dict(
            zip(_READ, zip(*rows_read, strict=True) if rows_read else [()] * len(_READ), strict=True)
        )
        rows = np.flatnonzero(finished)
        cuts = cut_many_at_publishes(
            self.weights,
            np.array(columns["started_s"], dtype=np.float64)[rows],
            np.array(columns["action_tokens"], dtype=np.int64)[rows],
            self.seconds_per_token,
            np.array(columns.pop("publishes_before"), dtype=np.int64)[rows],
            np.array(columns.pop("publishes_after"), dtype=np.int64)[rows],
        )
        first = _where(finished, cuts.version[np.searchsorted(cuts.rollout, np.arange(len(rows)))])
        last = _where(
            finished, cuts.version[np.searchsorted(cuts.rollout, np.arange(len(rows)), "right") - 1]
        )
        self.recorder.extend(
            "rollouts",
            {
                **columns,
                "submitted_s": columns["started_s"],  # a free slot is what asks
                "group_ready_s": columns["enqueued_s"],  # a complete group enters the queue at once
                "first_version": first,
                "oldest_version": first,
                "last_version": last,
                "observation_tokens": np.zeros(len(rollouts), dtype=np.int64),
                "turns": np.ones(len(rollouts), dtype=np.int64),
            },
        )
        ids = np.array(columns["rollout_id"], dtype=np.int64)[rows]
        pieces = {name: column for name, column in cuts._asdict().items() if name != "rollout"}
        self.recorder.extend("segments", {"rollout_id": ids[cuts.rollout], **pieces})


_READ: Final = (
    *("rollout_id", "prompt_id", "group_id", "member", "engine", "started_s", "finished_s", "enqueued_s"),
    *("consumed_s", "consumed_version", "action_tokens", "reward", "status", "reason"),
    *("publishes_before", "publishes_after"),
)


def _where(present: NDArray[np.bool_], values: NDArray[np.int64]) -> NDArray[np.object_]:
    """`values` in the rows that are present, null elsewhere."""
    column = np.full(len(present), None, dtype=object)
    column[present] = values
    return column
