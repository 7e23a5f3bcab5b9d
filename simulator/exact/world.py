"""What is a policy whose every response can be listed, and where was it some updates ago?

A table of logits, one row a prefix, and a reward for every response. Sums over responses replace samples,
so a gradient is known to rounding. The rules are those of a language model at the scale of nine sentences.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final, Protocol, final

import numpy as np
import torch
from jaxtyping import Float, Float64, Int
from torch import Tensor

VOCABULARY: Final = 3
LENGTH_TOKENS: Final = 2
STEP_NATS: Final = 0.2
"""Standard deviation of what one update adds to a logit."""


@final
@dataclass(frozen=True, slots=True, kw_only=True)
class World:
    """A policy, and what every response would earn. `S` counts prefixes, `V` tokens, `Y` responses.

    Raises:
        ValueError: a table whose size is not that of its vocabulary and length.
    """

    logits: Float64[Tensor, "S V"]
    """Row of each prefix: first the empty one, then those of one token in order, ..."""
    rewards: Float64[Tensor, " Y"]
    """In the order of the responses read as numbers in base `V`."""
    length_tokens: int = LENGTH_TOKENS

    def __post_init__(self) -> None:
        v, length = self.logits.shape[1], self.length_tokens
        prefixes, responses = sum(v**t for t in range(length)), v**length
        if self.logits.shape[0] != prefixes or self.rewards.shape != (responses,):
            raise ValueError(
                f"{v} tokens at length {length} make {prefixes} prefixes and {responses} responses, "
                f"got logits {tuple(self.logits.shape)} and rewards {tuple(self.rewards.shape)}"
            )

    @property
    def tokens(self) -> Int[Tensor, "Y T"]:
        """Every response."""
        v, last = self.logits.shape[1], self.length_tokens - 1
        index = torch.arange(len(self.rewards))
        return torch.stack([index // v ** (last - t) % v for t in range(last + 1)], dim=-1)

    @property
    def states(self) -> Int[Tensor, "Y T"]:
        """Row of `logits` that chose each token."""
        v, length = self.logits.shape[1], self.length_tokens
        index = torch.arange(len(self.rewards))
        return torch.stack([(v**t - 1) // (v - 1) + index // v ** (length - t) for t in range(length)], -1)

    def log_probs(self) -> Float64[Tensor, "Y T"]:
        """log pi of each token of each response, in nats."""
        return self.logits.log_softmax(-1)[self.states, self.tokens]

    def probabilities(self) -> Float64[Tensor, " Y"]:
        """Of each response; they sum to one."""
        return self.log_probs().sum(-1).exp()

    def mean_reward(self) -> Float64[Tensor, ""]:
        """J, the sum of probability times reward."""
        return self.probabilities() @ self.rewards

    def scores(self) -> Float64[Tensor, "Y T S V"]:
        r"""Gradient of each log-prob by the logits: in its own row :math:`1_{v=a} - \pi(v \mid s)`."""
        s, v = self.logits.shape
        own_row = torch.nn.functional.one_hot(self.states, s).to(self.logits.dtype)
        chosen = torch.nn.functional.one_hot(self.tokens, v).to(self.logits.dtype)
        return own_row[..., None] * (chosen - self.logits.softmax(-1)[self.states])[..., None, :]

    def gradient(self) -> Float64[Tensor, "S V"]:
        r"""The true policy gradient, :math:`\sum_y \pi(y)\, r(y) \sum_t \nabla\log\pi(y_t \mid y_{<t})`."""
        return torch.einsum("y,ytsv->sv", self.probabilities() * self.rewards, self.scores())

    def at(self, logits: Float[Tensor, "S V"]) -> World:
        """The same rewards under another policy."""
        return dataclasses.replace(self, logits=logits)


class Drift(Protocol):
    """(world, updates, generator) -> the world 0, 1, ..., updates ago.

    A longer past keeps the shorter one.
    """

    __name__: str

    def __call__(self, world: World, updates: int, rng: np.random.Generator, /) -> list[World]: ...


def random_walk(world: World, updates: int, rng: np.random.Generator) -> list[World]:
    """Each update moved every logit by an independent normal of `STEP_NATS`: staleness without a direction.

    Walked backwards from the present, so the present does not depend on how far back one asks.
    """
    steps = torch.from_numpy(rng.normal(scale=STEP_NATS, size=(updates, *world.logits.shape)))
    past = world.logits - torch.cat([torch.zeros_like(world.logits)[None], steps]).cumsum(0)
    return [world.at(logits) for logits in past]


def ascent(world: World, updates: int, rng: np.random.Generator) -> list[World]:  # noqa: ARG001
    """Each update moved the logits along the true gradient, `STEP_NATS` in all: staleness that learned.

    Taken backwards, with the gradient at the later policy: an implicit step of gradient ascent.
    """
    past = [world]
    for _ in range(updates):
        gradient = past[-1].gradient()
        past.append(world.at(past[-1].logits - STEP_NATS * gradient / gradient.norm()))
    return past


def name_of(drift: Drift) -> str:
    """The function's name, as a command line writes it."""
    return drift.__name__.replace("_", "-")


DRIFTS: Final[Mapping[str, Drift]] = {name_of(drift): drift for drift in (random_walk, ascent)}


def random_world(rng: np.random.Generator) -> World:
    """Standard normal logits, rewards uniform in [0, 1]."""
    prefixes = sum(VOCABULARY**t for t in range(LENGTH_TOKENS))
    return World(
        logits=torch.from_numpy(rng.normal(size=(prefixes, VOCABULARY))),
        rewards=torch.from_numpy(rng.uniform(size=VOCABULARY**LENGTH_TOKENS)),
    )
