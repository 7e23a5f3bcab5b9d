"""The two small networks: a token policy and a critic of the same family.

Both start from one-hot pairs (a, b) and one hidden layer, so the critic can be initialised from the
policy's starting weights, as SAO does. The critic also sees the answers given so far, pooled with equal
weights: what a causal model sees, without attention.
"""

from __future__ import annotations

import math
from typing import NamedTuple, final

import torch
from jaxtyping import Float, Int
from torch import Tensor, nn

from simulator.lab.modular_addition import Questions


class PolicyWeights(NamedTuple):
    """Weights of the token policy; a leading axis, if any, runs over versions."""

    first: Float[Tensor, "*n 2V H"]
    first_bias: Float[Tensor, "*n H"]
    second: Float[Tensor, "*n H V"]
    second_bias: Float[Tensor, "*n V"]


def answer_log_probs(weights: PolicyWeights, questions: Questions) -> Float[Tensor, "B T V"]:
    """Log-probabilities of every answer to every question under one set of weights, in nats."""
    modulus = len(weights.second_bias)
    hidden = weights.first[questions.a] + weights.first[modulus + questions.b] + weights.first_bias
    return (torch.relu(hidden) @ weights.second + weights.second_bias).log_softmax(-1)


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

    def weights(self) -> PolicyWeights:
        """The parameters themselves, by name."""
        return PolicyWeights(self.first, self.first_bias, self.second, self.second_bias)

    def snapshot(self) -> PolicyWeights:
        """A detached copy of the parameters: what a weight push sends."""
        return PolicyWeights(*(weight.detach().clone() for weight in self.weights()))


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
        length = answers.shape[1]
        asked = torch.relu(self.pair[questions.a] + self.pair[self.modulus + questions.b] + self.pair_bias)
        answered = torch.relu(
            self.answered_pair[questions.a]
            + self.answered_pair[self.modulus + questions.b]
            + self.answer[answers]
            + self.answered_bias
        )
        # Shifted, not subtracted: subtraction would leave the present answer's rounding error behind.
        before = nn.functional.pad(answered[:, :-1].cumsum(1), (0, 0, 1, 0)) / length
        clock = torch.arange(length, dtype=before.dtype) / length
        state = torch.cat([asked, before, clock.expand(answers.shape)[..., None]], dim=-1)
        return torch.relu(state @ self.mix + self.mix_bias) @ self.head + self.head_bias
