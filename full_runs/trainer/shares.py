"""A rank's rollouts of one batch, and how results of all ranks become one tensor again."""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import final

import torch
from jaxtyping import Float, Int
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
    whole = parts[0].new_zeros((count, *parts[0].shape[1:]))
    for part, share in zip(parts, shares, strict=True):
        if share.counts:
            whole[share.rows] = part.detach()
    # All but one of the numbers that are added are zero.
    return ranks.summed(whole)


@torch.no_grad()  # without it, each local part would become a node of a graph
def loss_and_norm(loss: Tensor, gradient: Sequence[Tensor], ranks: Ranks) -> tuple[float, float]:
    """The sum of all ranks' losses, and the length of the gradient that lies on them (collective).

    Args:
        loss: this rank's part.
        gradient: sharded tensors; each number lies on one rank.
    """
    own = torch.nn.utils.get_total_norm([local(part) for part in gradient])
    # In double precision, since it is squared.
    total, square = ranks.summed(torch.stack([loss.double(), own.double().square()])).tolist()
    return total, math.sqrt(square)
