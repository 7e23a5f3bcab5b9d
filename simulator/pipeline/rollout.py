"""What moves through the pipeline."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import final

from simulator.pipeline.weights import Segment, Weights, cut_at_publishes


@final
@dataclass(slots=True, eq=False)
class Rollout:
    """One answer on its way. The pipeline fills in what happens to it; everyone else only reads."""

    rollout_id: int
    prompt_id: int
    group_id: int
    member: int
    engine: int
    action_tokens: int
    """Its whole length, decided when it starts."""
    weights: Weights
    publishes_before: int
    """Index into `weights` of the version that sampled its first token."""
    started_s: float
    seconds_per_token: float
    publishes_after: int = 0
    """Index into `weights` of the version that its engine held when it finished."""
    finished_s: float | None = None
    enqueued_s: float | None = None
    """Also when its group was complete: a complete group enters the queue at once."""
    consumed_s: float | None = None
    consumed_version: int | None = None
    reward: float | None = None
    status: str = "in_flight"
    reason: str | None = None

    @property
    def oldest_version(self) -> int:
        """Version that sampled the first token: engines never go back."""
        return self.weights.versions[self.publishes_before]

    @property
    def segments(self) -> tuple[Segment, ...]:
        """Which version sampled which tokens, of a finished rollout; in order, versions increasing."""
        some = slice(self.publishes_before, self.publishes_after + 1)
        return cut_at_publishes(
            self.started_s,
            self.action_tokens,
            self.seconds_per_token,
            self.weights.versions[some],
            self.weights.published_s[some],
        )


@final
@dataclass(frozen=True, slots=True, kw_only=True)
class Update:
    """One optimizer update that is about to start."""

    version: int
    """Of the trainer, before the update; lags are counted from here."""
    index_in_batch: int
    """0 for the first update on a batch."""
    rollouts: Sequence[Rollout]
    """Whole groups in order of arrival, members in order."""
    start_s: float
