"""Policies of a world so small that all they can say is a table: a row a context, a column a token.

A context is all that the policy sees when it chooses a token. A token may be sampled later than the simulated
instant at which an engine would have done it: with keyed uniforms it is the very same token, and one batched
look-up serves all the versions that meet in a batch.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import TypeAlias, final

import torch
from jaxtyping import Float, Int
from torch import Tensor

from simulator.lab.parts import Speaker

Table: TypeAlias = Float[Tensor, "C V"]
"""Log-probability in nats of every token (column) in every context (row)."""

Contexts: TypeAlias = Callable[[Int[Tensor, "B P"], Int[Tensor, "B T"]], Int[Tensor, "B T"]]
"""(prompts, tokens) -> the context in which each token was chosen."""


def of_tokens(table: Table, contexts: Int[Tensor, "B T"], tokens: Int[Tensor, "B T"]) -> Float[Tensor, "B T"]:
    """Log-probs of `tokens`, each in its context, in nats; differentiable in the table."""
    return table.flatten()[contexts * table.shape[1] + tokens]


def inverted(log_probs: Float[Tensor, "*n V"], uniforms: Float[Tensor, "*n"]) -> Int[Tensor, "*n"]:
    """Draw tokens by inverting the cumulative distribution at uniforms in [0, 1)."""
    below = log_probs.exp().cumsum(-1) <= uniforms[..., None]
    return below.sum(-1).clamp(max=log_probs.shape[-1] - 1)


@final
class TableSpeaker:
    """What weights said at one instant, kept for good."""

    __slots__ = ("contexts", "table")

    def __init__(self, table: Table, contexts: Contexts) -> None:
        self.table = table.detach()
        self.contexts = contexts

    def log_probs(self, prompts: Int[Tensor, "B P"], tokens: Int[Tensor, "B T"], /) -> Float[Tensor, "B T"]:
        return of_tokens(self.table, self.contexts(prompts, tokens), tokens)


@final
class TableVersions:
    """All published tables, stacked: a thousand versions of a small world are a few megabytes."""

    def __init__(self) -> None:
        self._row: dict[int, int] = {}
        self._stack: Float[Tensor, "n C V"] | None = None

    def publish(self, version: int, weights: Speaker, /) -> None:
        """Keep what the weights of `version` (updates behind them) say.

        Raises:
            TypeError: `weights` are no table.
            ValueError: the version is not newer than all before it.
        """
        if not isinstance(weights, TableSpeaker):
            raise TypeError(f"this world speaks in tables, got {type(weights).__name__}")
        if self._row and version <= max(self._row):
            raise ValueError(f"version {version} is not newer than {max(self._row)}")
        row = len(self._row)
        if self._stack is None:
            self._stack = torch.zeros(64, *weights.table.shape)
        elif row == len(self._stack):
            self._stack = torch.cat([self._stack, torch.zeros_like(self._stack)])
        self._stack[row] = weights.table
        self._row[version] = row

    def forget(self, before: int, /) -> None:
        """Drop versions older than `before`."""
        kept = {version: row for version, row in self._row.items() if version >= before}
        # Moving tables costs more than keeping a few.
        if self._stack is not None and 2 * len(kept) < len(self._row) and len(self._row) > 64:
            self._load(list(kept), self._stack[list(kept.values())])

    def state(self) -> dict[str, Tensor]:
        """Versions and their tables, for a checkpoint."""
        stack = torch.zeros(0) if self._stack is None else self._stack[: len(self._row)].clone()
        return {"versions": torch.tensor(list(self._row), dtype=torch.long), "tables": stack}

    def load_state(self, state: Mapping[str, Tensor], /) -> None:
        """Go back to what `state` returned."""
        self._load(state["versions"].tolist(), state["tables"])

    def log_probs(self, contexts: Int[Tensor, "B T"], versions: Int[Tensor, "B T"]) -> Float[Tensor, "B T V"]:
        """Log-probabilities of every token, in each context under its own version of the weights.

        Raises:
            ValueError: a version that was never published, or was forgotten.
        """
        unique, inverse = torch.unique(versions, return_inverse=True)
        missing = [v for v in unique.tolist() if v not in self._row]
        if missing or self._stack is None:
            raise ValueError(f"no engine ever held version {missing}; {len(self._row)} are known")
        row = torch.tensor([self._row[v] for v in unique.tolist()])[inverse]
        return self._stack[row, contexts]

    def _load(self, versions: list[int], tables: Float[Tensor, "n C V"]) -> None:
        self._row = {version: row for row, version in enumerate(versions)}
        self._stack = None
        if versions:
            self._stack = torch.zeros(max(64, 2 * len(versions)), *tables.shape[1:])
            self._stack[: len(versions)] = tables
