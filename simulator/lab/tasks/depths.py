r"""How many turns does a prompt take, if most take few and some take very many?

The number of turns D is a Pareto variable rounded down, between 2 and a cap:

.. math:: P(D \ge d) = \frac{d^{-a} - (m + 1)^{-a}}{2^{-a} - (m + 1)^{-a}}, \qquad d = 2, \dots, m

*Choice*: the family and a = 1.5; a heavy tail is what agents are known for, and no trace was fitted.
"""

from __future__ import annotations

import torch
from jaxtyping import Float64, Int
from torch import Tensor

FEWEST = 2


def above(*, most: int, tail: float) -> Float64[Tensor, " D"]:
    """P(D > d) for d = 2 .. most - 1, falling.

    Args:
        most: m, in turns.
        tail: a; the smaller, the heavier the tail.

    Raises:
        ValueError: `most` below 2, or `tail` not positive.
    """
    if most < FEWEST or not tail > 0:
        raise ValueError(f"needs most >= {FEWEST} and tail > 0, got most = {most}, tail = {tail}")
    powers = torch.arange(FEWEST, most + 2, dtype=torch.float64) ** -tail
    return (powers[1:-1] - powers[-1]) / (powers[0] - powers[-1])


def turns_at(share: Float64[Tensor, " B"], above: Float64[Tensor, " D"]) -> Int[Tensor, " B"]:
    """Turns of the prompt that `share` of all prompts come before, ordered from few turns to many.

    Args:
        share: in [0, 1).
        above: P(D > d) for d = 2, 3, ..., falling.
    """
    return FEWEST + (1 - share[:, None] <= above.to(share.device)).sum(-1)


def mean_turns(above: Float64[Tensor, " D"]) -> float:
    """E[D], exactly: 2 + the sum of P(D > d)."""
    return FEWEST + float(above.sum())
