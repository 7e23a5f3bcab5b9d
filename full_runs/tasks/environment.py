"""What must an environment offer to be played through an engine?

It speaks token ids, so nothing is ever tokenised again: what the engine sampled is what the trainer reads.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final, Protocol, final


@final
@dataclass(frozen=True, slots=True, kw_only=True)
class Ask:
    """What the engine is asked for in a turn."""

    max_tokens: int
    stop_token_ids: tuple[int, ...] = ()
    """The turn ends after any of these; the token belongs to the turn."""


@final
@dataclass(frozen=True, slots=True, kw_only=True)
class Step:
    """What the environment returns to what the model said.

    Raises:
        ValueError: neither a next turn nor a reward, or both, or a reward that is no finite number.
    """

    observation: tuple[int, ...] = ()
    """Tokens that follow, not chosen by the model."""
    ask: Ask | None = None
    """The next turn; None if the rollout has ended."""
    reward: float | None = None
    """Of the whole rollout, once it has ended."""
    truncated: bool = False
    """A cap on its length ended it, not the model or the environment."""

    def __post_init__(self) -> None:
        if (self.ask is None) == (self.reward is None):
            raise ValueError(f"a step has a next turn or a reward, got {self.ask} and {self.reward}")
        if self.reward is not None and not math.isfinite(self.reward):
            raise ValueError(f"a reward is a finite number, got {self.reward}")


class Episode(Protocol):
    """One rollout's environment.

    Its methods run in the controller's event loop: what computes for long, or runs foreign code, does so in a
    process of its own and is awaited.
    """

    async def reset(self) -> tuple[tuple[int, ...], Ask]:
        """The prompt's tokens, and what is asked first."""

    async def step(self, token_ids: Sequence[int], /) -> Step:
        """What follows what the model said in this turn."""


HELD_OUT: Final = 2**28
"""Numbers of prompts that are never trained on begin here."""


class World(Protocol):
    """Prompts by number, each played in an episode of its own."""

    @property
    def most_tokens(self) -> int:
        """Of prompt and response together."""

    def episode(self, prompt_id: int, /) -> Episode:
        """A fresh environment; the same prompt for the same id."""


def must_fit(prompt: Sequence[int], most: int, *, prompt_id: int) -> None:
    """Refuse a prompt that is too long.

    Raises:
        ValueError: it has more than `most` tokens.
    """
    if len(prompt) > most:
        raise ValueError(f"prompt {prompt_id} has {len(prompt)} tokens, max_prompt_tokens is {most}")
