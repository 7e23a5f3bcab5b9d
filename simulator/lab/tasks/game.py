"""What does a world of token sequences have to say, so that a small language model can be played in it?

A game is lists of token ids and rules: it holds no weights and draws no random numbers but those of its
prompts. All rollouts of a batch are played in lockstep: at response position t of every one of them, the game
says whether the model chooses the token, the environment returns one, or nothing follows any more.
"""

from __future__ import annotations

from typing import Final, NamedTuple, Protocol

import numpy as np
from jaxtyping import Bool, Float, Int
from numpy.typing import NDArray
from torch import Tensor

CHOOSE: Final = -1
"""The model chooses the token at this position."""
END: Final = -2
"""The response ended before this position; once ended, it stays so."""


class Demonstration(NamedTuple):
    """Right responses, for supervised learning."""

    tokens: Int[Tensor, "B T"]
    action_mask: Bool[Tensor, "B T"]
    """True where the model is to choose the token; False for observations and padding."""


class Game(Protocol):
    """Rules of a world of token sequences.

    `repr(game)` names every number that defines the game, and no address: what is cached is keyed by it. A
    frozen dataclass has such a `repr`; leave fields that only cache out of it (`field(repr=False)`).
    """

    @property
    def vocabulary(self) -> int: ...

    @property
    def prompt_tokens(self) -> int:
        """P: all prompts are formatted to this width; what fills the rest is a token like any other."""

    @property
    def response_tokens(self) -> int:
        """The most tokens that a response has, observations included; beyond it the rollout is truncated."""

    def prompts(self, prompt_ids: NDArray[np.int64], /) -> Int[Tensor, "B P"]:
        """The same prompt for the same id, whoever asks."""

    def said_tokens(self, prompts: Int[Tensor, "B P"], /) -> Int[Tensor, " B"]:
        """How many tokens has a good response? The scale on which simulated tokens are spread over it."""

    def follow(
        self, prompts: Int[Tensor, "B P"], tokens: Int[Tensor, "B T"], position: int, /
    ) -> Int[Tensor, " B"]:
        """What stands at response position `position`, given tokens[:, :position]?

        Returns:
            `CHOOSE`, `END`, or the id of a token that the environment returns. Asked with `position`
            = `response_tokens`, `END` says that the response ended by itself; anything else, that it is
            truncated.
        """

    def rewards(
        self, prompts: Int[Tensor, "B P"], tokens: Int[Tensor, "B T"], action_mask: Bool[Tensor, "B T"], /
    ) -> Float[Tensor, " B"]:
        """What each finished or truncated response earned; `action_mask` tells where it has tokens."""

    def demonstration(self, prompts: Int[Tensor, "B P"], /) -> Demonstration:
        """A right response to each prompt."""

    def relative_length(self, prompt_id: int, /) -> float:
        """Length of this prompt's responses over the mean of all prompts."""
