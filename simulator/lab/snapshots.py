"""Which weights sampled this token? Every version that engines ever held, and sampling from them.

The answers of a rollout depend on its own questions only, so a token may be sampled later than the
simulated instant at which an engine would have done it, from a copy of the weights of that instant: the
distribution, and with keyed uniforms the very token, is the same. One batched pass then serves all the
versions that meet in a batch.
"""

from __future__ import annotations

from typing import final

import torch
from jaxtyping import Float, Int
from torch import Tensor

from simulator.lab.modular_addition import Questions, Sampled
from simulator.lab.networks import PolicyWeights


@final
class Snapshots:
    """Published weights, stacked. Small networks: a thousand versions are a few megabytes."""

    def __init__(self) -> None:
        self._row: dict[int, int] = {}
        self._stack: PolicyWeights | None = None

    def publish(self, version: int, weights: PolicyWeights) -> None:
        """Keep `weights` under their version (updates behind them).

        Raises:
            ValueError: the version is not newer than all before it.
        """
        if self._row and version <= max(self._row):
            raise ValueError(f"version {version} is not newer than {max(self._row)}")
        row = len(self._row)
        if self._stack is None or row == len(self._stack.first):
            room = 64 if self._stack is None else 2 * row
            grown = PolicyWeights(*(torch.zeros(room, *w.shape) for w in weights))
            if self._stack is not None:
                for new, old in zip(grown, self._stack, strict=True):
                    new[:row] = old
            self._stack = grown
        for stacked, weight in zip(self._stack, weights, strict=True):
            stacked[row] = weight
        self._row[version] = row

    def log_probs(self, questions: Questions, versions: Int[Tensor, "B T"]) -> Float[Tensor, "B T V"]:
        """Log-probabilities of every answer, each question under its own version of the weights.

        Raises:
            ValueError: a version that was never published.
        """
        unique, inverse = torch.unique(versions, return_inverse=True)
        missing = [v for v in unique.tolist() if v not in self._row]
        if missing or self._stack is None:
            raise ValueError(f"no engine ever held version {missing}, known: {len(self._row)} versions")
        row = torch.tensor([self._row[v] for v in unique.tolist()])[inverse]
        first, first_bias, second, second_bias = self._stack
        modulus = second.shape[-1]
        hidden = first[row, questions.a] + first[row, modulus + questions.b] + first_bias[row]
        logits = torch.einsum("bth,bthv->btv", torch.relu(hidden), second[row]) + second_bias[row]
        return logits.log_softmax(-1)

    def sample(
        self, questions: Questions, versions: Int[Tensor, "B T"], uniforms: Float[Tensor, "B T"]
    ) -> Sampled:
        """Draw answers by inverting the cumulative distribution at `uniforms`."""
        log_probs = self.log_probs(questions, versions)
        below = log_probs.exp().cumsum(-1) <= uniforms[..., None]
        answers = below.sum(-1).clamp(max=log_probs.shape[-1] - 1)
        return Sampled(answers, log_probs.gather(-1, answers[..., None]).squeeze(-1))
