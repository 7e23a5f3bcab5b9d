"""The networks of modular addition: a policy that answers one pair at a time, and a critic of its family.

Both start from one-hot pairs (a, b) and one hidden layer, so the critic can be initialised from the
policy's starting weights, as SAO does. The critic also sees the answers given so far, pooled with equal
weights: what a causal model sees, without attention.

The world has few questions, so each network is evaluated once on all of them and looked up: exact, and
several times faster than one evaluation a token. A prompt is its a's, followed by its b's.
"""

from __future__ import annotations

import math
from typing import final

import torch
from jaxtyping import Float, Int
from torch import Tensor, nn
from torch.nn.functional import embedding, pad

from simulator.lab.models.tables import Table, TableSpeaker, of_tokens


def question_numbers(prompts: Int[Tensor, "B 2T"], modulus: int) -> Int[Tensor, "B T"]:
    """Each question's place a V + b in a list of all of them."""
    a, b = prompts.chunk(2, dim=1)
    return a * modulus + b


@final
class PairPolicy(nn.Module):
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

    def forward(self) -> Table:
        """What the policy says to every question."""
        hidden = torch.relu(_pairs(self.first, self.modulus) + self.first_bias)
        return (hidden @ self.second + self.second_bias).log_softmax(-1)

    def contexts(self, prompts: Int[Tensor, "B P"], tokens: Int[Tensor, "B T"]) -> Int[Tensor, "B T"]:  # noqa: ARG002
        """The policy sees its current question, and nothing else."""
        return question_numbers(prompts, self.modulus)

    def log_probs(self, prompts: Int[Tensor, "B P"], tokens: Int[Tensor, "B T"], /) -> Float[Tensor, "B T"]:
        return of_tokens(self(), self.contexts(prompts, tokens), tokens)

    def snapshot(self) -> TableSpeaker:
        with torch.no_grad():
            return TableSpeaker(self(), self.contexts)


@final
class PairCritic(nn.Module):
    """V(s_t): the questions up to t and the answers before t -> expected reward of the rollout."""

    def __init__(self, policy: PairPolicy, *, generator: torch.Generator) -> None:
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

    def values(self, prompts: Int[Tensor, "B P"], tokens: Int[Tensor, "B T"], /) -> Float[Tensor, "B T"]:
        """Values in units of reward; position t never sees answer t or later."""
        length, number = tokens.shape[1], question_numbers(prompts, self.modulus)
        asked = embedding(number, torch.relu(_pairs(self.pair, self.modulus) + self.pair_bias))
        said = _pairs(self.answered_pair, self.modulus)[:, None] + self.answer + self.answered_bias
        answered = embedding(number * self.modulus + tokens, torch.relu(said).flatten(0, 1))
        # Shifted, not subtracted: subtraction would leave the present answer's rounding error behind.
        before = pad(answered[:, :-1].cumsum(1), (0, 0, 1, 0)) / length
        clock = (torch.arange(length, dtype=before.dtype) / length).expand(tokens.shape)
        state = torch.cat([asked, before, clock[..., None]], dim=-1)
        return torch.relu(state @ self.mix + self.mix_bias) @ self.head + self.head_bias


def _pairs(weight: Float[Tensor, "2V H"], modulus: int) -> Float[Tensor, "Q H"]:
    """First-layer sums of every pair (a, b), in the order of question numbers."""
    return (weight[:modulus, None] + weight[None, modulus:]).flatten(0, 1)
