"""How are responses of very unequal length read without reading their padding too?

Lengths have a heavy tail: padded to the longest, most of a batch is padding. Rows are read in groups, each
padded to its own longest; that is at most twice as long as its shortest, prompt included.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Final

import torch
from jaxtyping import Float, Int
from torch import Tensor
from torch.nn import functional

PADDING: Final = -1
"""Marks what is no token, to the right of a response. Any other id there is read like a token."""


def by_length(
    prompts: Int[Tensor, "B P"],
    tokens: Int[Tensor, "B T"],
    read: Callable[[Int[Tensor, "b P"], Int[Tensor, "b t"]], Float[Tensor, "b t V"]],
) -> Float[Tensor, "B T V"]:
    """What `read` says of all rows, 0 in most of the padding; `read` never meets `PADDING`.

    Args:
        prompts: token ids.
        tokens: token ids and `PADDING`.
        read: of a row, it may say at t only what follows from the prompt and tokens[: t + 1].
    """
    width, asked = tokens.shape[1], prompts.shape[1]
    lengths = (tokens != PADDING).sum(1).clamp(min=1)
    longest = int(lengths.max())
    halvings = ((asked + longest) / (asked + lengths)).log2().floor()
    groups = [(halvings == number).nonzero()[:, 0] for number in sorted(set(halvings.tolist()))]
    tokens = tokens.clamp(min=0)
    if len(groups) == 1 and longest == width:
        return read(prompts, tokens)
    parts = []
    for rows in groups:
        said = read(prompts[rows], tokens[rows, : int(lengths[rows].max())])
        parts.append(functional.pad(said, (0, 0, 0, width - said.shape[1])))
    return torch.cat(parts).index_select(0, torch.cat(groups).argsort())
