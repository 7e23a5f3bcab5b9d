"""Policies that are nothing but logits: one row a context, every response within reach of a sum.

No network stands between parameters and log-probs, so what an estimator should do to them is known exactly.
The critic is a table too, one cell a state. Both are told what a context, or a state, is.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TypeAlias, final

import torch
from jaxtyping import Float, Int
from torch import Tensor, nn

from simulator.lab.models.tables import Contexts, Table, TableSpeaker, of_tokens

Says: TypeAlias = Callable[[Tensor], Table]
"""Logits -> log-probability of every token in every context."""


def softmax(logits: Float[Tensor, "C V"]) -> Table:
    """A logit for every token of every context."""
    return logits.log_softmax(-1)


def bernoulli(logits: Float[Tensor, " C"]) -> Table:
    r"""Two tokens and one logit: token 1 has probability :math:`1 / (1 + e^{-z})`."""
    return nn.functional.logsigmoid(torch.stack([-logits, logits], dim=-1))


@final
class LogitPolicy(nn.Module):
    """A table of logits under training.

    Args:
        logits: the starting weights.
        says: what they mean, `softmax` or `bernoulli`.
        contexts: the row that chose each token; it must not depend on that token or a later one.
    """

    def __init__(self, logits: Tensor, *, says: Says, contexts: Contexts) -> None:
        super().__init__()
        self.logits = nn.Parameter(logits.clone())
        self.says = says
        self.contexts = contexts

    def forward(self) -> Table:
        """What the policy says in every context."""
        return self.says(self.logits)

    def log_probs(self, prompts: Int[Tensor, "B P"], tokens: Int[Tensor, "B T"], /) -> Float[Tensor, "B T"]:
        return of_tokens(self(), self.contexts(prompts, tokens), tokens)

    def snapshot(self) -> TableSpeaker:
        with torch.no_grad():
            return TableSpeaker(self(), self.contexts)


@final
class CellCritic(nn.Module):
    """A value for every state; all start at zero, below any reward.

    Args:
        cells: number of states.
        states: the state before each token, numbered; as for a policy, it must not depend on that token.
    """

    def __init__(self, cells: int, *, states: Contexts) -> None:
        super().__init__()
        self.cells = nn.Parameter(torch.zeros(cells))
        self.states = states

    def values(self, prompts: Int[Tensor, "B P"], tokens: Int[Tensor, "B T"], /) -> Float[Tensor, "B T"]:
        return self.cells[self.states(prompts, tokens)]
