"""Can a model follow a taste that changes without notice, if no prompt ever comes back?

The first token picks one of three styles; the tokens after it must be that style's rendering of the prompt.
The reward is quality times whether the style is the one rewarded at present, each 0 or 1. Which one that is
depends on the prompt's id, in the order in which users arrive, and cannot be read from the prompt.
Ids beyond the last shift are of the last taste, held-out ones too: an accuracy measured on those is how often
that style is chosen and written well. How well a run follows the taste is read off the rewards it trained on.

Rendering: symbol a at place i = 1 .. 4 is written as the symbol a + i s mod 16, where s = 1, 4, 7 by style,
so that no two styles agree at any place.
(*Choice*: the paper judges quality and style of prose by a model; this is prose that can be checked.)

References:
    Hou et al., SAO, 2026, the simulated online setting. https://arxiv.org/abs/2607.07508.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final, final

import numpy as np
import torch
from jaxtyping import Bool, Float, Int
from numpy.typing import NDArray
from torch import Tensor

from simulator.lab.tasks import numbered
from simulator.lab.tasks.game import CHOOSE, END, Demonstration

SYMBOLS: Final = numbered.BASE
"""Tokens 0 .. 15, read in prompts and written in responses."""
STYLE_NAMES: Final = ("cute", "chuunibyou", "classical")
STYLES: Final = SYMBOLS
"""Token of the first style; the others follow."""
WRITTEN: Final = 4
"""The first symbols of a prompt are to be rendered; the others only tell it from all others."""

_STRIDES = (1, 4, 7)


@final
@dataclass(frozen=True, kw_only=True)
class StyleDrift:
    """The game; see the module.

    Args:
        seed: of the run: which prompts its ids are.
        shifts: the ids of the first prompts that reward the second style and the third, rising; fewer than
            two leave the last styles out.

    Raises:
        ValueError: `shifts` not rising, negative, or more than two.
    """

    vocabulary = SYMBOLS + len(STYLE_NAMES)
    prompt_tokens = numbered.DIGITS
    response_tokens = 1 + WRITTEN

    seed: int
    shifts: tuple[int, ...]

    def __post_init__(self) -> None:
        rising = all(before < after for before, after in zip((-1, *self.shifts), self.shifts, strict=False))
        if len(self.shifts) >= len(STYLE_NAMES) or not rising:
            most = len(STYLE_NAMES) - 1
            raise ValueError(f"shifts must be up to {most} rising prompt ids, got {self.shifts}")

    def prompts(self, prompt_ids: NDArray[np.int64], /) -> Int[Tensor, "B P"]:
        """Eight symbols; different for every id."""
        return numbered.enciphered(prompt_ids, seed=self.seed)

    def rewarded_style(self, prompt_ids: NDArray[np.int64], /) -> NDArray[np.int64]:
        """0, 1 or 2: the style that these users like."""
        return np.searchsorted(np.array(self.shifts, np.int64), prompt_ids, side="right")

    def said_tokens(self, prompts: Int[Tensor, "B P"], /) -> Int[Tensor, " B"]:
        """Of every response."""
        return torch.full_like(prompts[:, 0], self.response_tokens)

    def relative_length(self, prompt_id: int, /) -> float:  # noqa: ARG002
        """All are alike."""
        return 1.0

    def follow(
        self,
        prompts: Int[Tensor, "B P"],
        tokens: Int[Tensor, "B T"],  # noqa: ARG002
        position: int,
        /,
    ) -> Int[Tensor, " B"]:
        """The model chooses all tokens, of which there is a fixed number."""
        return torch.full_like(prompts[:, 0], CHOOSE if position < self.response_tokens else END)

    def quality(self, prompts: Int[Tensor, "B P"], tokens: Int[Tensor, "B T"], /) -> Bool[Tensor, " B"]:
        """Is it in one of the styles, and is every token that style's rendering of the prompt?"""
        style = tokens[:, 0] - STYLES
        known = (style >= 0) & (style < len(STYLE_NAMES))
        rendered = _rendered(prompts, style.where(known, 0))
        return known & (tokens[:, 1 : 1 + WRITTEN] == rendered).all(-1)

    def rewards(
        self,
        prompts: Int[Tensor, "B P"],
        tokens: Int[Tensor, "B T"],
        action_mask: Bool[Tensor, "B T"],  # noqa: ARG002
        /,
    ) -> Float[Tensor, " B"]:
        """quality x (the style is the rewarded one)"""
        ids = numbered.deciphered(prompts, seed=self.seed)
        wanted = torch.from_numpy(self.rewarded_style(ids.cpu().numpy())).to(tokens.device)
        return (self.quality(prompts, tokens) & (tokens[:, 0] - STYLES == wanted)).float()

    def demonstration(self, prompts: Int[Tensor, "B P"], /) -> Demonstration:
        """Good writing, a third of it in each style, and in which cannot be told from the prompt."""
        style = numbered.hashed(numbered.number(prompts)) % len(STYLE_NAMES)
        tokens = torch.cat((STYLES + style[:, None], _rendered(prompts, style)), -1)
        return Demonstration(tokens, torch.ones_like(tokens, dtype=torch.bool))


def _rendered(prompts: Int[Tensor, "B P"], style: Int[Tensor, " B"]) -> Int[Tensor, "B W"]:
    strides = torch.tensor(_STRIDES, device=prompts.device)[style, None]
    places = torch.arange(1, 1 + WRITTEN, device=prompts.device)
    return (prompts[:, :WRITTEN] + places * strides) % SYMBOLS
