"""The two small networks: a token policy and a critic of the same family.

Both start from one-hot pairs (a, b) and one hidden layer, so the critic can be initialised from the
policy's starting weights, as SAO does. The critic also sees the answers given so far, pooled with equal
weights: what a causal model sees, without attention.

The world has few questions, so each network is evaluated once on all of them and looked up: exact, and
several times faster than one evaluation a token.
"""

from __future__ import annotations

import math
from typing import TypeAlias, final

import torch
from jaxtyping import Float, Int
from torch import Tensor, nn
from torch.nn.functional import embedding, pad

from simulator.lab.modular_addition import Questions

LogProbTable: TypeAlias = Float[Tensor, "Q V"]
"""Log-probability in nats of every answer (column) to every question (row, numbered a V + b)."""


@final
class TokenPolicy(nn.Module):
    """One-hot pair -> hidden ReLU layer -> logits over answers: about 2,000 parameters."""

    def __init__(self, *, modulus: int, hidden: int, generator: torch.Generator) -> None:
        super().__init__()
        inputs = 2 * modulus
        self.modulus = modulus
        self.first = nn.Parameter(torch.randn(inputs, hidden, generator=generator) * 1.5 / math.sqrt(inputs))
        self.first_bias = nn.Parameter(torch.zeros(hidden))
        self.second = nn.Parameter(
            torch.randn(hidden, modulus, generator=generator) * 0.5 / math.sqrt(hidden)
        )
        self.second_bias = nn.Parameter(torch.zeros(modulus))

    def forward(self) -> LogProbTable:
        """What the policy says to every question."""
        hidden = torch.relu(_pairs(self.first, self.modulus) + self.first_bias)
        return (hidden @ self.second + self.second_bias).log_softmax(-1)

    def snapshot(self) -> LogProbTable:
        """The same as it is now, for good: what a weight push makes an engine say."""
        with torch.no_grad():
            table: Tensor = self()
        return table


@final
class TokenCritic(nn.Module):
    """V(s_t): the questions up to t and the answers before t -> expected reward of the rollout."""

    def __init__(self, policy: TokenPolicy, *, generator: torch.Generator) -> None:
        super().__init__()
        hidden, modulus = policy.second.shape
        self.modulus = modulus
        self.pair = nn.Parameter(policy.first.detach().clone())
        self.pair_bias = nn.Parameter(policy.first_bias.detach().clone())
        self.answered_pair = nn.Parameter(policy.first.detach().clone())
        self.answer = nn.Parameter(
            torch.randn(modulus, hidden, generator=generator) * 1.5 / math.sqrt(2 * modulus)
        )
        self.answered_bias = nn.Parameter(torch.zeros(hidden))
        self.mix = nn.Parameter(
            torch.randn(2 * hidden + 1, hidden, generator=generator) / math.sqrt(2 * hidden)
        )
        self.mix_bias = nn.Parameter(torch.zeros(hidden))
        # A head of zeros starts every value at 0, below any reward: no random baseline at the start.
        self.head = nn.Parameter(torch.zeros(hidden))
        self.head_bias = nn.Parameter(torch.zeros(()))

    def forward(self, questions: Questions, answers: Int[Tensor, "B T"]) -> Float[Tensor, "B T"]:
        """Values in units of reward; position t never sees answer t or later."""
        length, number = answers.shape[1], questions.number(self.modulus)
        asked = embedding(number, torch.relu(_pairs(self.pair, self.modulus) + self.pair_bias))
        said = _pairs(self.answered_pair, self.modulus)[:, None] + self.answer + self.answered_bias
        answered = embedding(number * self.modulus + answers, torch.relu(said).flatten(0, 1))
        # Shifted, not subtracted: subtraction would leave the present answer's rounding error behind.
        before = pad(answered[:, :-1].cumsum(1), (0, 0, 1, 0)) / length
        clock = (torch.arange(length, dtype=before.dtype) / length).expand(answers.shape)
        state = torch.cat([asked, before, clock[..., None]], dim=-1)
        return torch.relu(state @ self.mix + self.mix_bias) @ self.head + self.head_bias


def _pairs(weight: Float[Tensor, "2V H"], modulus: int) -> Float[Tensor, "Q H"]:
    """First-layer sums of every pair (a, b), in the order of question numbers."""
    return (weight[:modulus, None] + weight[None, modulus:]).flatten(0, 1)
