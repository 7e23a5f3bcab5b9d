"""What moves through the pipeline."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import NamedTuple, final


class Segment(NamedTuple):
    """Consecutive tokens of one rollout that one version sampled."""

    version: int
    start_token: int
    tokens: int
    start_s: float
    end_s: float


@final
@dataclass(slots=True, eq=False)
class Rollout:
    """One answer on its way. The pipeline fills in the times; everyone else only reads."""

    rollout_id: int
    prompt_id: int
    group_id: int
    member: int
    engine: int
    action_tokens: int
    """Its whole length, decided when it starts."""
    publishes_before: int
    """Publishes that its engine had seen when it started."""
    started_s: float
    finished_s: float | None = None
    enqueued_s: float | None = None
    """Also when its group was complete: a complete group enters the queue at once."""
    segments: tuple[Segment, ...] = ()
    """In order of tokens; versions never decrease. Empty until it finishes."""

    @property
    def oldest_version(self) -> int:
        """Version that sampled the first token: engines never go back."""
        return self.segments[0].version


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
