"""A language whose policy is a table of bigrams: every response is listed, and so is the true gradient.

A prompt is one token, and the response goes on from it; each token is chosen by the row of the one before.
Rows serve all positions, so what helps one place costs another: parameters are shared, as a network's are.
Each of 15,625 responses has a probability and a reward, so the expected reward is a sum and its gradient is
autograd's. An estimator's mean gradient under any lag can be held against it.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from functools import partial
from typing import Final, TypeAlias, final

import numpy as np
import torch
from jaxtyping import Float, Float64, Int
from numpy.typing import NDArray
from torch import Tensor

from simulator.lab.draws import KeyedDraws
from simulator.lab.models.logits import CellCritic, LogitPolicy, softmax
from simulator.lab.models.table_sampler import TableSampler
from simulator.lab.models.tables import Table, TableSpeaker
from simulator.lab.parts import Policy

MOST_RESPONSES: Final = 200_000
START_STD: Final = 0.5
"""*Choice*: standard deviation of the starting logits; with none, all orders of the tokens would be alike."""

Reward: TypeAlias = Callable[[Int[Tensor, "B T"], int], Float[Tensor, " B"]]
"""(responses, vocabulary) -> what each earns, in [0, 1]."""


def distinct(responses: Int[Tensor, "B T"], vocabulary: int) -> Float[Tensor, " B"]:
    """How many different tokens were said, from 0 for one to 1 for as many as there can be.

    Best is to go round all of them, which a table of bigrams can.
    """
    ordered = responses.sort(-1).values
    changes = (ordered[:, 1:] != ordered[:, :-1]).sum(-1)
    return changes / (min(responses.shape[1], vocabulary) - 1)


@final
class Bigram:
    """The world of one run.

    Args:
        vocabulary: V.
        length: T, tokens of a response.
        reward: of a response.
        seed: of the prompts, the samplers' uniforms and the starting weights.

    Raises:
        ValueError: fewer than two tokens, or more responses than can be listed.
    """

    def __init__(self, *, vocabulary: int = 5, length: int = 6, reward: Reward = distinct, seed: int) -> None:
        if vocabulary < 2 or length < 2:
            raise ValueError(f"needs two tokens or more, got {vocabulary} at length {length}")
        if vocabulary**length > MOST_RESPONSES:
            raise ValueError(
                f"{vocabulary} tokens at length {length} make {vocabulary**length} responses, "
                f"more than the {MOST_RESPONSES} that are listed"
            )
        self.vocabulary = vocabulary
        self.length = length
        self._seed = seed
        self._reward = reward
        self._responses = torch.cartesian_prod(*[torch.arange(vocabulary)] * length).view(-1, length)
        self._earned = reward(self._responses, vocabulary).double()
        self._prompts = KeyedDraws(
            seed, "prompts", lambda rng, n: rng.integers(0, vocabulary, (n, 1), dtype=np.int64)
        )
        self._uniforms = KeyedDraws(
            seed, "sampling", lambda rng, n: rng.random((n, length), dtype=np.float32)
        )

    def policy(self) -> LogitPolicy:
        start = torch.randn(
            self.vocabulary, self.vocabulary, generator=torch.Generator().manual_seed(self._seed)
        )
        return LogitPolicy(START_STD * start, says=softmax, contexts=by_previous)

    def critic(self, policy: Policy, /) -> CellCritic:  # noqa: ARG002 - a table of zeros, whatever the policy
        """A value for every position and token before it: a part of the state, as a small critic sees it."""
        return CellCritic(
            self.length * self.vocabulary,
            states=partial(by_position_and_previous, vocabulary=self.vocabulary),
        )

    def sampler(self) -> TableSampler:
        return TableSampler(
            prompts=self.prompts,
            uniforms=self.uniforms,
            contexts=by_previous,
            rewards=lambda _, tokens: self._reward(tokens, self.vocabulary),
        )

    def measure(self, policy: Policy, update: int, /) -> dict[str, float]:  # noqa: ARG002 - at every one
        """Expected reward over all prompts, and mean entropy of a token in nats: no sampling error."""
        says = policy.snapshot()
        assert isinstance(says, TableSpeaker)
        table = says.table.double()
        return {
            "accuracy": self.expected_reward(table).item(),
            "entropy": mean_entropy(table, self.length).item(),
        }

    def relative_length(self, prompt_id: int, /) -> float:  # noqa: ARG002 - all are alike
        return 1.0

    def prompts(self, prompt_ids: NDArray[np.int64]) -> Int[Tensor, "B 1"]:
        """The token that each response goes on from; every one of V as often."""
        return torch.from_numpy(self._prompts.rows(prompt_ids))

    def uniforms(self, rollout_ids: NDArray[np.int64]) -> Float[Tensor, "B T"]:
        """The number in [0, 1) that decides each token of these rollouts."""
        return torch.from_numpy(self._uniforms.rows(rollout_ids))

    def expected_reward(self, table: Table) -> Float[Tensor, ""]:
        r"""J, the mean over prompts of :math:`\sum_y \pi(y \mid s)\, r(y)`; differentiable in the table.

        Args:
            table: log-probability of each token (column) after each token (row).
        """
        responses = self._responses
        after_first = table[responses[:, :-1], responses[:, 1:]].sum(-1)
        first = table.logsumexp(0) - math.log(self.vocabulary)
        return (first[responses[:, 0]] + after_first).exp() @ self._earned.to(table.dtype)


def exact_gradient(world: Bigram, logits: Float[Tensor, "V V"]) -> Float64[Tensor, "V V"]:
    """The policy gradient of J at these logits, to rounding."""
    leaf = logits.detach().double().requires_grad_()
    gradient: Tensor = torch.autograd.grad(world.expected_reward(softmax(leaf)), leaf)[0]
    return gradient


def mean_entropy(table: Table, length: int) -> Float[Tensor, ""]:
    """Entropy of a token in nats, averaged over positions and over what the policy says before them."""
    chain = table.exp()
    of_row = -(chain * table).sum(-1)
    visited = torch.full_like(of_row, 1 / len(of_row))
    total = torch.zeros_like(of_row[0])
    for _ in range(length):
        total, visited = total + visited @ of_row, visited @ chain
    return total / length


def by_previous(prompts: Int[Tensor, "B 1"], tokens: Int[Tensor, "B T"]) -> Int[Tensor, "B T"]:
    """The context of a token is the one before it; of the first, the prompt."""
    return torch.cat([prompts, tokens[:, :-1]], dim=1)


def by_position_and_previous(
    prompts: Int[Tensor, "B 1"], tokens: Int[Tensor, "B T"], *, vocabulary: int
) -> Int[Tensor, "B T"]:
    """The state before a token, in part: where it stands, and the token before it."""
    return torch.arange(tokens.shape[1]) * vocabulary + by_previous(prompts, tokens)
