"""What is a rollout, and what does an update do with it? Timing needs lengths; learning plugs in here."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import count
from typing import Protocol, final

from simulator.pipeline.views import Update
from simulator.world.drawn import DrawnLengths


@final
@dataclass(frozen=True, slots=True, kw_only=True)
class UpdateResult:
    """What the learner measured; both may be left out."""

    metrics: Mapping[str, float] = field(default_factory=dict)
    """Become columns of the log's `updates`."""
    rewards: Sequence[float] | None = None
    """One a rollout, in the order of `Update.rollouts`; NaN where nobody knows."""


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
        self.lengths_in_order = lengths.in_order

    def train(self, update: Update, /) -> UpdateResult:  # noqa: ARG002 - nothing learns
        return _NOTHING

    def publish(self, version: int, /) -> None:
        """Nothing to do."""


def in_order(workload: Workload, group_size: int) -> Iterator[int]:
    """Lengths of a workload's rollouts, prompt by prompt and member by member, each as it is asked for.

    A workload may have `lengths_in_order`, which must say the same as `length_tokens` and is quicker.
    """
    quick: Callable[[], Iterator[int]] | None = getattr(workload, "lengths_in_order", None)
    if quick is not None:
        return quick()
    return (workload.length_tokens(prompt, member) for prompt in count() for member in range(group_size))


_NOTHING = UpdateResult()


def without_copies(result: UpdateResult, ids: Sequence[int], distinct: Sequence[int]) -> UpdateResult:
    """What an update on `ids`, some of them named twice, says of each rollout once."""
    if result.rewards is None or len(ids) == len(distinct) or len(result.rewards) != len(ids):
        return result
    rewards = dict(zip(ids, result.rewards, strict=True))
    return UpdateResult(metrics=result.metrics, rewards=[rewards[i] for i in distinct])
