"""Dropping: what becomes of a group when some of its rollouts may not be trained on?

A rollout is too old, or its environment crashed. Its own term goes; the question is what its siblings are
compared with. Three answers, and a fourth that fills the gap:

- `withhold`, the default: its reward stays in the baseline. No sibling's advantage changes, as under a
  correction that gives it weight zero, and no generated token is wasted but its own. It needs a reward, which
  a stale rollout has and a crashed one has not.
- `recompute`: the baseline is the mean of who is left. For a crash.
- `drop_group`: siblings go too. Nobody is compared with fewer than were sampled; finished rollouts are lost.
- `pad_by_repetition`: GLM-5's. Valid siblings stand in for who is missing.

Each takes (batch, dropped, advantage) and returns the rows to train on with their advantages. Advantages that
read the whole batch, such as whitened ones, see all rows under `withhold` and the shipped rows otherwise.
Where baselines are not the group's (a critic's, a running mean), the first two agree.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TypeAlias

import torch
from jaxtyping import Bool, Float, Int
from torch import Tensor

from algorithms.advantage import Advantage
from algorithms.rollout import Batch

Dropping: TypeAlias = Callable[[Batch, Bool[Tensor, " B"], Advantage], tuple[Batch, Float[Tensor, "rows T"]]]
"""(whole batch, rollouts that may not be trained on, advantage) -> (rows to train on, their advantages)."""


def withhold(
    batch: Batch, dropped: Bool[Tensor, " B"], advantage: Advantage
) -> tuple[Batch, Float[Tensor, "rows T"]]:
    """Train on the others, with advantages from before the drop. The default.

    Advantages of a group no longer sum to zero: the missing part is the dropped rollout's.

    Args:
        batch: whole groups, the dropped rollouts among them with their rewards.
        dropped: True for a rollout that may not be trained on.
        advantage: of the estimator.

    Raises:
        ValueError: a dropped rollout without a finite return: its siblings would be compared with nothing.

    References:
        https://github.com/PrimeIntellect-ai/prime-rl/issues/2960.
    """
    unknown = (dropped & ~batch.returns.isfinite()).nonzero()[:, 0].tolist()
    if unknown:
        raise ValueError(
            f"withhold needs the rewards of dropped rollouts, rows {unknown[:8]} have none that is finite: "
            "use recompute for rollouts that crashed"
        )
    index = (~dropped).nonzero()[:, 0]
    return batch.rows(index), advantage(batch)[index]


def recompute(
    batch: Batch, dropped: Bool[Tensor, " B"], advantage: Advantage
) -> tuple[Batch, Float[Tensor, "rows T"]]:
    """Train on the others as if the dropped had never been sampled; their rewards may hold anything.

    Siblings are judged among survivors. If age and reward go together, as when long rollouts fail, a
    group of survivors that agree has no signal left, and one survivor alone never has.

    Args:
        batch, dropped, advantage: as for `withhold`.
    """
    return _shipped(batch, (~dropped).nonzero()[:, 0], advantage)


def drop_group(
    batch: Batch, dropped: Bool[Tensor, " B"], advantage: Advantage
) -> tuple[Batch, Float[Tensor, "rows T"]]:
    """Train on groups that lost nobody.

    Args:
        batch, dropped, advantage: as for `withhold`.
    """
    touched = torch.isin(batch.group_ids, batch.group_ids[dropped])
    return _shipped(batch, (~touched).nonzero()[:, 0], advantage)


def pad_by_repetition(
    batch: Batch, dropped: Bool[Tensor, " B"], advantage: Advantage
) -> tuple[Batch, Float[Tensor, "rows T"]]:
    """Fill a group up with copies of its valid rollouts if more than half are valid, else drop it.

    A copy counts as a rollout of its own, in the baseline, in the divisor and in the gradient.
    *Choice*: copies take the places of the dropped, valid members in turn and in the order of their rows.

    Args:
        batch, dropped, advantage: as for `withhold`; rewards of dropped rollouts may hold anything.

    References:
        GLM-5, 2026. https://arxiv.org/abs/2602.15763.
    """
    source = torch.arange(len(dropped), device=dropped.device)
    kept = ~dropped
    for group in torch.unique(batch.group_ids):
        member = batch.group_ids == group
        valid, gone = (member & ~dropped).nonzero()[:, 0], (member & dropped).nonzero()[:, 0]
        if 2 * len(valid) > len(valid) + len(gone):
            source[gone] = valid[torch.arange(len(gone), device=valid.device) % len(valid)]
            kept = kept | member
        else:
            kept = kept & ~member
    return _shipped(batch, source[kept], advantage)


def _shipped(
    batch: Batch, index: Int[Tensor, " rows"], advantage: Advantage
) -> tuple[Batch, Float[Tensor, "rows T"]]:
    rows = batch.rows(index)
    # Nobody left: an advantage of nothing need not be defined.
    return rows, advantage(rows) if len(index) else torch.zeros_like(rows.rewards)
