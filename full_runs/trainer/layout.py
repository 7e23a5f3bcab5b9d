"""How do prompts and responses of unequal length become what a causal model reads?

Prompts come padded on the left, responses on the right, both with `PADDING`. Moved together, a row is one
run of tokens with padding behind it only, where a causal model never looks: no attention mask is needed, and
attention takes its fast path. Packed, all rows stand one behind another, and positions that start anew tell
them apart.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import NamedTuple, final

import torch
from jaxtyping import Int
from torch import Tensor

from simulator.lab.models.lengths import PADDING


class Inputs(NamedTuple):
    """What the model reads, and where its states lie."""

    token_ids: Int[Tensor, "b n"]
    positions: Int[Tensor, "b n"] | None
    """None: 0, 1, 2, ... in every row."""
    before: Int[Tensor, "B T"]
    """Of each response token, the place in the flattened outputs of the state that it was chosen in. In the
    padding behind a response: of the state after its last token."""


@final
@dataclass(frozen=True, slots=True, kw_only=True)
class Layout:
    """How rows are put together, and what that costs."""

    arrange: Callable[[Int[Tensor, "B P"], Int[Tensor, "B T"]], Inputs]
    cost: Callable[[Sequence[int]], int]
    """(lengths of the rows in tokens) -> tokens that the model reads, padding included."""


def _before(present: Tensor, prompt_width: int) -> Tensor:
    """Of each response column, the number of tokens of its row before it, minus one."""
    count = present.long().cumsum(1) - present.long()
    states = count[:, prompt_width:] - 1
    if states.numel() and int(states.min()) < 0:
        rows = (states < 0).any(1).nonzero()[:, 0].tolist()
        raise ValueError(f"rows {rows[:8]} have an empty prompt: nothing comes before their first token")
    return states


def padded(prompts: Int[Tensor, "B P"], tokens: Int[Tensor, "B T"]) -> Inputs:
    """Every row from its first column on, zeros behind the shorter ones.

    Raises:
        ValueError: a row without a prompt.
    """
    rows = torch.cat([prompts, tokens], dim=1)
    present = rows != PADDING
    width = int(present.sum(1).max())
    # Stable, so that tokens keep their order.
    order = (~present).long().sort(dim=1, stable=True).indices[:, :width]
    states = _before(present, prompts.shape[1])
    first = torch.arange(len(rows), device=rows.device)[:, None] * width
    return Inputs(rows.gather(1, order).clamp(min=0), None, states + first)


def packed(prompts: Int[Tensor, "B P"], tokens: Int[Tensor, "B T"]) -> Inputs:
    """All rows in one, without any padding.

    Raises:
        ValueError: a row without a prompt.
    """
    rows = torch.cat([prompts, tokens], dim=1)
    present = rows != PADDING
    lengths = present.sum(1)
    first = lengths.cumsum(0) - lengths
    states = _before(present, prompts.shape[1])
    positions = (present.long().cumsum(1) - 1)[present]
    return Inputs(rows[present][None], positions[None], states + first[:, None])


def _longest_for_all(lengths: Sequence[int]) -> int:
    return len(lengths) * max(lengths, default=0)


PADDED = Layout(arrange=padded, cost=_longest_for_all)
PACKED = Layout(arrange=packed, cost=sum)
