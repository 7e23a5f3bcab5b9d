"""What is a rollout, and what does an update do with it? Timing needs lengths; learning plugs in here."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Protocol, final

from simulator.pipeline.rollout import Update
from simulator.world.drawn import DrawnLengths


@final
@dataclass(frozen=True, slots=True, kw_only=True)
class UpdateResult:
    """What the learner measured; both may be left out."""

    metrics: Mapping[str, float] = field(default_factory=dict)
    """Become columns of the log's `updates`."""
    rewards: Sequence[float] | None = None
    """One a rollout, in the order of `Update.rollouts`."""


class Workload(Protocol):
    def length_tokens(self, prompt_id: int, member: int, /) -> int:
        """How many tokens will this rollout have? Asked once, when it starts; at least 1."""

    def train(self, update: Update, /) -> UpdateResult:
        """Called at the start of each update, in order."""

    def publish(self, version: int, /) -> None:
        """The engines hold `version` from now on."""


@final
class DrawnWorkload:
    """Lengths from a law, and nothing learns."""

    def __init__(self, lengths: DrawnLengths) -> None:
        self.length_tokens = lengths.length_tokens

    def train(self, update: Update, /) -> UpdateResult:  # noqa: ARG002 - nothing learns
        return _NOTHING

    def publish(self, version: int, /) -> None:
        """Nothing to do."""


_NOTHING = UpdateResult()
