"""A rank's rollouts of one batch, and how results of all ranks become one tensor again."""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import final

import torch
from jaxtyping import Float, Float64, Int
from torch import Tensor

from algorithms.rollout import Batch
from full_runs.trainer.layout import Layout
from full_runs.trainer.ranks import Ranks, local
from full_runs.trainer.rows import plan
from simulator.lab.models.lengths import PADDING
from simulator.lab.parts import Lesson


@final
@dataclass(frozen=True, slots=True, kw_only=True)
class Share:
    """One micro-batch of this rank."""

    rows: Int[Tensor, " b"]
    counts: bool
    """False: a rollout that stands in for none, so that this rank takes part in a pass of the others."""

    def of(self, batch: Batch) -> Batch:
        """These rollouts; without any action if they do not count."""
        part = batch.rows(self.rows)
        if self.counts:
            return part
        return dataclasses.replace(part, action_mask=torch.zeros_like(part.action_mask))


def shared(lesson: Lesson, layout: Layout, ranks: Ranks, tokens_at_once: int | None) -> tuple[Share, ...]:
    """This rank's micro-batches; as many as every other rank has."""
    tokens = lesson.batch.token_ids
    lengths = ((lesson.prompts != PADDING).sum(1) + (tokens != PADDING).sum(1)).tolist()
    mine = plan(lengths, ranks.count, cost=layout.cost, tokens_at_once=tokens_at_once)[ranks.rank]
    # The last that was dealt, the shortest, stands in.
    shortest = min(range(len(lengths)), key=lengths.__getitem__)
    return tuple(
        Share(rows=torch.tensor(rows or (shortest,), device=tokens.device), counts=bool(rows))
        for rows in mine
    )


def gathered(
    parts: Sequence[Float[Tensor, "b n"]], shares: Sequence[Share], count: int, ranks: Ranks
) -> Float[Tensor, "B n"]:
    """Every rank's rows in their places, on every rank and without gradient (collective)."""
    # All but one of the numbers that are added are zero.
    return ranks.summed(_placed(parts, shares, count))


def loss_and_norm(loss: Tensor, gradient: Sequence[Tensor], ranks: Ranks) -> tuple[float, float]:
    """The sum of all ranks' losses, and the length of the gradient that lies on them (collective).

    Args:
        loss: this rank's part.
        gradient: sharded tensors; each number lies on one rank.
    """
    total, square = ranks.summed(_loss_and_square(loss, gradient)).tolist()
    return total, math.sqrt(square)


def gathered_with_norm(
    parts: Sequence[Float[Tensor, "b n"]],
    shares: Sequence[Share],
    count: int,
    loss: Tensor,
    gradient: Sequence[Tensor],
    ranks: Ranks,
) -> tuple[Float[Tensor, "B n"], float, float]:
    """`gathered` and `loss_and_norm`, for one wait between ranks instead of two (collective)."""
    mine = _placed(parts, shares, count)
    # Nothing is lost: single precision becomes double, zeros are added, and it becomes single again.
    both = ranks.summed(torch.cat([_loss_and_square(loss, gradient), mine.double().flatten()]))
    total, square = both[:2].tolist()
    return both[2:].view_as(mine).to(mine.dtype), total, math.sqrt(square)


def _placed(
    parts: Sequence[Float[Tensor, "b n"]], shares: Sequence[Share], count: int
) -> Float[Tensor, "B n"]:
    """This rank's rows in their places, zeros in those of others."""
    whole = parts[0].new_zeros((count, *parts[0].shape[1:]))
    for part, share in zip(parts, shares, strict=True):
        if share.counts:
            whole[share.rows] = part.detach()
    return whole


@torch.no_grad()  # without it, each local part would become a node of a graph
def _loss_and_square(loss: Tensor, gradient: Sequence[Tensor]) -> Float64[Tensor, " 2"]:
    """Of this rank, the loss and the gradient's squared length; in double precision, since it is squared."""
    own = torch.nn.utils.get_total_norm([local(part) for part in gradient])
    return torch.stack([loss.double(), own.double().square()])
