"""How far has a rollout come in its episode? For rollouts that do more than decode one answer."""

from __future__ import annotations

from dataclasses import dataclass
from typing import final

from simulator.world.episodes import Episode


@final
@dataclass(slots=True, kw_only=True)
class Course:
    """Of one rollout, from its admission."""

    episode: Episode
    submitted_s: float
    turn: int = 0
    """The one under way, or that comes next while the environment works."""
    end_tokens: int
    """Tokens of its own that the rollout will have made when this turn ends."""
    slot: int | None = None
    """That waits for it while the environment works."""
    kept_tokens: int = 0
    """Whose keys and values its engine holds for it meanwhile."""

    @property
    def is_last_turn(self) -> bool:
        return self.turn + 1 == len(self.episode.turn_tokens)


def refuse_impossible(place: int, episode: Episode, prompt_tokens: int, capacity_tokens: float) -> None:
    """Raise ValueError if this episode could never come to its end.

    Args:
        place: of the rollout, for the message.
        capacity_tokens: keys and values that an engine holds.
    """
    if min(episode.turn_tokens) < 1:
        raise ValueError(
            f"rollout {place}: turns of {episode.turn_tokens} tokens; at least 1 is needed in each"
        )
    tokens = prompt_tokens + episode.action_tokens + sum(episode.observation_tokens)
    if tokens > capacity_tokens:
        raise ValueError(
            f"rollout {place} needs keys and values of {tokens} tokens, an engine holds"
            f" {capacity_tokens:.0f}: it could never be finished"
        )
