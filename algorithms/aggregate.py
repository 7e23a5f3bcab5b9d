"""Aggregation: from `[B, T]` terms to one number, the same on one device or on many.

An aggregate is a pair of pure functions. `count` says what the mean runs over; `reduce` sums this
shard's terms and divides by the count of the *whole* batch, which the caller supplies (all-reduced,
if there are ranks). Losses of shards and micro-batches therefore add up to the loss of the undivided
batch. A count of zero gives a loss of zero with zero gradients.

A row without a single masked-in token counts as no rollout: it leaves every mean as it was.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import final

import torch
from jaxtyping import Bool, Float, Int
from torch import Tensor


@final
@dataclass(frozen=True, slots=True, kw_only=True)
class Aggregate:
    """How terms become a scalar. See the module docstring for the contract."""

    count: Callable[[Bool[Tensor, "B T"]], Int[Tensor, ""]]
    reduce: Callable[[Float[Tensor, "B T"], Bool[Tensor, "B T"], Int[Tensor, ""]], Float[Tensor, ""]]


def count_tokens(mask: Bool[Tensor, "B T"]) -> Int[Tensor, ""]:
    """Tokens masked in."""
    return mask.count_nonzero()


def count_rollouts(mask: Bool[Tensor, "B T"]) -> Int[Tensor, ""]:
    """Rows with at least one token masked in."""
    return (_length(mask) > 0).sum()


def _sum_over_tokens(
    terms: Float[Tensor, "B T"], mask: Bool[Tensor, "B T"], total: Int[Tensor, ""]
) -> Float[Tensor, ""]:
    return terms.where(mask, 0.0).sum() / total.clamp(min=1)


def _sum_of_sequence_means(
    terms: Float[Tensor, "B T"], mask: Bool[Tensor, "B T"], total: Int[Tensor, ""]
) -> Float[Tensor, ""]:
    per_sequence = terms.where(mask, 0.0).sum(-1) / _length(mask).clamp(min=1)
    return per_sequence.sum() / total.clamp(min=1)


def _length(mask: Bool[Tensor, "B T"]) -> Int[Tensor, " B"]:
    # The default, int64, widens the whole mask first: twice the memory of the terms themselves.
    return mask.sum(-1, dtype=torch.int32)


token_mean = Aggregate(count=count_tokens, reduce=_sum_over_tokens)
"""Every token weighs the same; long rollouts weigh more. DAPO, SAO.

Tokens that a trust region dropped still count. To leave them out of the divisor, count over
the kept tokens instead: `Estimator.counted`.
"""

sequence_mean = Aggregate(count=count_rollouts, reduce=_sum_of_sequence_means)
"""Every rollout weighs the same; its tokens share that weight. GRPO as published."""


def constant(tokens: float) -> Aggregate:
    r"""Every token weighs the same in every batch: no length of any rollout enters.

    .. math:: \frac{1}{N\,L} \sum_{i,t} \ell_{i,t}

    Args:
        tokens: L, the divisor of each rollout, such as the length cap. L = 1 sums over tokens and
            averages over rollouts.

    Raises:
        ValueError: `tokens` is not a positive finite number.

    References:
        Liu et al., Dr. GRPO, 2025. https://arxiv.org/abs/2503.20783.
    """
    if not (math.isfinite(tokens) and tokens > 0):
        raise ValueError(f"tokens must be positive and finite, got {tokens}")

    def reduce(
        terms: Float[Tensor, "B T"], mask: Bool[Tensor, "B T"], total: Int[Tensor, ""]
    ) -> Float[Tensor, ""]:
        return terms.where(mask, 0.0).sum() / (total.clamp(min=1) * tokens)

    reduce.__name__ = f"constant({tokens:g})"
    return Aggregate(count=count_rollouts, reduce=reduce)
