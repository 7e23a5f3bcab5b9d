"""A game with observations and a small network, shared by the tests of the language model."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import torch
from jaxtyping import Bool, Float, Int
from numpy.typing import NDArray
from torch import Tensor

from simulator.lab.draws import KeyedDraws
from simulator.lab.models.gpt import Gpt, Sizes
from simulator.lab.tasks.game import CHOOSE, END, Demonstration

SIZES = Sizes(width=16, depth=2, heads=2, expansion=2)
STOP = 7


@dataclass(frozen=True, kw_only=True)
class Sums:
    """Two tokens of the model, their sum mod 7 from the environment, and again; 7 stops."""

    vocabulary = 8
    prompt_tokens = 3
    response_tokens = 11
    seed: int = 0

    def prompts(self, prompt_ids: NDArray[np.int64], /) -> Int[Tensor, "B P"]:
        rows = KeyedDraws(self.seed, "prompts", lambda rng, n: rng.integers(0, 7, (n, 3), dtype=np.int64))
        return torch.from_numpy(rows.rows(prompt_ids))

    def said_tokens(self, prompts: Int[Tensor, "B P"], /) -> Int[Tensor, " B"]:
        return 2 + prompts[:, 0]

    def follow(
        self, prompts: Int[Tensor, "B P"], tokens: Int[Tensor, "B T"], position: int, /
    ) -> Int[Tensor, " B"]:
        said = tokens[:, :position]
        follows = torch.full_like(prompts[:, 0], CHOOSE)
        if position % 3 == 2:
            follows = said[:, -2:].sum(-1) % 7
        return follows.masked_fill((said == STOP).any(-1), END)

    def rewards(
        self, prompts: Int[Tensor, "B P"], tokens: Int[Tensor, "B T"], action_mask: Bool[Tensor, "B T"], /
    ) -> Float[Tensor, " B"]:
        return ((tokens == prompts[:, :1]) & action_mask).sum(-1).float()

    def demonstration(self, prompts: Int[Tensor, "B P"], /) -> Demonstration:
        stop = torch.full_like(prompts[:, :1], STOP)
        tokens = torch.cat([prompts[:, :1], stop, stop * 0], 1)
        return Demonstration(tokens, torch.tensor([True, True, False]).expand_as(tokens))

    def relative_length(self, prompt_id: int, /) -> float:  # noqa: ARG002
        return 1.0


def network(seed: int = 0, game: Sums = Sums(), *, sharpness: float = 6.0) -> Gpt:
    """Weights with opinions: a head of the usual size would make all tokens nearly equal."""
    model = Gpt(
        SIZES,
        vocabulary=game.vocabulary,
        positions=game.prompt_tokens + game.response_tokens,
        generator=torch.Generator().manual_seed(seed),
    )
    with torch.no_grad():
        model.head.mul_(sharpness)
        # Stop rarely, so that rollouts have several turns.
        model.head[STOP] = 0.0
    return model


def asked(rows: int, game: Sums = Sums(), *, first: int = 0) -> tuple[Tensor, Tensor]:
    """Prompts and uniforms."""
    generator = torch.Generator().manual_seed(first)
    prompts = game.prompts(first + np.arange(rows))
    return prompts, torch.rand(rows, game.response_tokens, generator=generator)
