r"""Sixty-four coins, and a reward iff between 60 and 70 % of them show one: an optimum with another side.

Each bit has a logit of its own, and no bit depends on another, so log-probs and the probability of success
are exact. Late data pushes the mean on through the band and out again, which a task that only asks for more
ones would never show: there an overshoot saturates. Known behaviour by lag and estimator makes it a test of
learners.

Plain gradient descent is meant (`OPTIMIZER`), at rates of 0.5 to 2 with a mean over rollouts of sums over
tokens: Adam would hide the size of a stale step.
"""

from __future__ import annotations

import math
from functools import partial
from typing import Final, final

import numpy as np
import torch
from jaxtyping import Float, Int
from numpy.typing import NDArray
from torch import Tensor

from simulator.lab.draws import KeyedDraws
from simulator.lab.learner import MakeOptimizer, sgd
from simulator.lab.models.logits import CellCritic, LogitPolicy, bernoulli
from simulator.lab.models.table_sampler import TableSampler
from simulator.lab.models.tables import TableSpeaker
from simulator.lab.parts import Policy

OPTIMIZER: Final[MakeOptimizer] = sgd
"""For the learner of this world."""


def success_probability(ones: Float[Tensor, " T"], fewest: int, most: int) -> Float[Tensor, ""]:
    r"""P(fewest <= number of ones <= most) of independent bits, differentiable in their probabilities.

    A Poisson-binomial law, built up bit by bit: :math:`P_{t+1}(k) = (1 - p_t) P_t(k) + p_t P_t(k - 1)`.

    Args:
        ones: p_t, the probability that bit t is one.
        fewest, most: both count as success.
    """
    mass = torch.nn.functional.one_hot(torch.tensor(0), len(ones) + 1).to(ones.dtype)
    for p in ones:
        # The last entry that rolls round to the front is zero: no more ones than bits.
        mass = (1 - p) * mass + p * mass.roll(1)
    return mass[fewest : most + 1].sum()


@final
class BandBits:
    """The world of one run.

    Args:
        bits: T, tokens of a response; the vocabulary is {0, 1}.
        low, high: shares of ones between which a response earns 1; both belong to the band.
        seed: of the samplers' uniforms. All bits start fair.

    Raises:
        ValueError: a band that holds no number of ones.
    """

    def __init__(self, *, bits: int = 64, low: float = 0.6, high: float = 0.7, seed: int) -> None:
        self.bits = bits
        # A share such as 0.7 of 10 must not be lost to its last binary digit.
        self.fewest, self.most = math.ceil(low * bits - 1e-9), math.floor(high * bits + 1e-9)
        if not 0 <= self.fewest <= self.most <= bits:
            raise ValueError(f"no number of {bits} bits lies between shares of {low} and {high}")
        self._uniforms = KeyedDraws(seed, "sampling", lambda rng, n: rng.random((n, bits), dtype=np.float32))

    def policy(self) -> LogitPolicy:
        return LogitPolicy(torch.zeros(self.bits), says=bernoulli, contexts=by_position)

    def critic(self, policy: Policy, /) -> CellCritic:  # noqa: ARG002 - a table of zeros, whatever the policy
        """A value for every position and number of ones before it."""
        return CellCritic(self.bits * (self.bits + 1), states=partial(by_position_and_ones, bits=self.bits))

    def sampler(self) -> TableSampler:
        return TableSampler(
            prompts=self.prompts, uniforms=self.uniforms, contexts=by_position, rewards=self.rewards
        )

    def measure(self, policy: Policy, update: int, /) -> dict[str, float]:  # noqa: ARG002 - at every one
        """Probability of success, mean entropy of a bit in nats, mean share of ones: no sampling error."""
        says = policy.snapshot()
        assert isinstance(says, TableSpeaker)
        table = says.table.double()
        ones = table[:, 1].exp()
        return {
            "accuracy": success_probability(ones, self.fewest, self.most).item(),
            "entropy": -(table.exp() * table).sum(-1).mean().item(),
            "ones": ones.mean().item(),
        }

    def relative_length(self, prompt_id: int, /) -> float:  # noqa: ARG002 - all are alike
        return 1.0

    def prompts(self, prompt_ids: NDArray[np.int64]) -> Int[Tensor, "B 0"]:
        """Nothing is asked."""
        return torch.zeros(len(prompt_ids), 0, dtype=torch.long)

    def uniforms(self, rollout_ids: NDArray[np.int64]) -> Float[Tensor, "B T"]:
        """The number in [0, 1) that decides each bit of these rollouts."""
        return torch.from_numpy(self._uniforms.rows(rollout_ids))

    def rewards(self, prompts: Int[Tensor, "B 0"], bits: Int[Tensor, "B T"]) -> Float[Tensor, " B"]:  # noqa: ARG002
        """1 inside the band, 0 outside."""
        ones = bits.sum(-1)
        return ((ones >= self.fewest) & (ones <= self.most)).to(torch.float32)


def by_position(prompts: Int[Tensor, "B 0"], tokens: Int[Tensor, "B T"]) -> Int[Tensor, "B T"]:  # noqa: ARG001
    """The context of a token is where it stands."""
    return torch.arange(tokens.shape[1]).expand_as(tokens)


def by_position_and_ones(
    prompts: Int[Tensor, "B 0"], tokens: Int[Tensor, "B T"], *, bits: int
) -> Int[Tensor, "B T"]:
    """The state before a token: where it stands, and how many ones stand before it."""
    before = tokens.cumsum(-1) - tokens
    return by_position(prompts, tokens) * (bits + 1) + before
