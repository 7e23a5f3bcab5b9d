"""What is known of a rollout of a real run?"""

from __future__ import annotations

from dataclasses import dataclass
from typing import NamedTuple, final

from full_runs.tasks.play import Played


class Place(NamedTuple):
    """What is asked for."""

    prompt_id: int
    group_id: int
    member: int


@final
@dataclass(frozen=True, slots=True, kw_only=True)
class Asked:
    """A rollout that was let in."""

    rollout_id: int
    prompt_id: int
    group_id: int
    member: int
    submitted_s: float


@final
@dataclass(frozen=True, slots=True, kw_only=True)
class Made:
    """A rollout that an engine finished."""

    asked: Asked
    played: Played
    engine: int
    started_s: float
    finished_s: float

    @property
    def oldest_version(self) -> int:
        """Of the tokens that the model chose."""
        return -self.played.rollout.oldest_lag(0)

    @property
    def tokens(self) -> int:
        return sum(self.played.rollout.action_mask)


@final
@dataclass(frozen=True, slots=True, kw_only=True)
class Group:
    """A complete group."""

    group_id: int
    """Its place in the order in which groups were started, too."""
    members: tuple[Made, ...]
    """Copies stand in for those that failed, if the group was padded."""
    ready_s: float

    @property
    def distinct(self) -> tuple[Made, ...]:
        """Without copies."""
        return tuple({made.asked.rollout_id: made for made in self.members}.values())

    @property
    def copies(self) -> int:
        """Members that stand in for those that failed."""
        return len(self.members) - len(self.distinct)

    @property
    def oldest_version(self) -> int:
        return min(made.oldest_version for made in self.members)

    @property
    def newest_version(self) -> int:
        return max(max(made.played.rollout.policy_versions) for made in self.members)
