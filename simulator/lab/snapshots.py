"""Which weights sampled this token? What every version that engines ever held says, and sampling from it.

The answers of a rollout depend on its own questions only, so a token may be sampled later than the
simulated instant at which an engine would have done it, from what the weights of that instant say: the
distribution, and with keyed uniforms the very token, is the same. One batched look-up then serves all the
versions that meet in a batch.
"""

from __future__ import annotations

from typing import final

import torch
from jaxtyping import Float, Int
from torch import Tensor

from simulator.lab.modular_addition import Questions, Sampled
from simulator.lab.networks import LogProbTable


@final
class Snapshots:
    """Published policies, stacked. Small worlds: a thousand versions are a few megabytes."""

    def __init__(self) -> None:
        self._row: dict[int, int] = {}
        self._stack: Float[Tensor, "n Q V"] | None = None

    def publish(self, version: int, table: LogProbTable) -> None:
        """Keep what the weights of `version` (updates behind them) say.

        Raises:
            ValueError: the version is not newer than all before it.
        """
        if self._row and version <= max(self._row):
            raise ValueError(f"version {version} is not newer than {max(self._row)}")
        row = len(self._row)
        if self._stack is None:
            self._stack = torch.zeros(64, *table.shape)
        elif row == len(self._stack):
            self._stack = torch.cat([self._stack, torch.zeros_like(self._stack)])
        self._stack[row] = table
        self._row[version] = row

    def log_probs(self, questions: Questions, versions: Int[Tensor, "B T"]) -> Float[Tensor, "B T V"]:
        """Log-probabilities of every answer, each question under its own version of the weights.

        Raises:
            ValueError: a version that was never published.
        """
        unique, inverse = torch.unique(versions, return_inverse=True)
        missing = [v for v in unique.tolist() if v not in self._row]
        if missing or self._stack is None:
            raise ValueError(f"no engine ever held version {missing}; {len(self._row)} are known")
        row = torch.tensor([self._row[v] for v in unique.tolist()])[inverse]
        return self._stack[row, questions.number(self._stack.shape[-1])]

    def sample(
        self, questions: Questions, versions: Int[Tensor, "B T"], uniforms: Float[Tensor, "B T"]
    ) -> Sampled:
        """Draw answers by inverting the cumulative distribution at `uniforms`."""
        log_probs = self.log_probs(questions, versions)
        below = log_probs.exp().cumsum(-1) <= uniforms[..., None]
        answers = below.sum(-1).clamp(max=log_probs.shape[-1] - 1)
        return Sampled(answers, log_probs.gather(-1, answers[..., None]).squeeze(-1))
