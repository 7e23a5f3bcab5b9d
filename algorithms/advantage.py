"""Advantages: how much better than expected was this token?

Every function reads a whole `Batch` and returns `[B, T]` without gradient, zero off the action tokens.
Groups are found by `group_ids`, never by position, so rows may come in any order or be missing. A row
without a single action token has no reward: it is nobody's peer.
Token-level advantages of a critic live in `gae`, running-mean baselines in `baseline`.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import TypeAlias

import torch
from jaxtyping import Bool, Float, Float64, Int
from torch import Tensor

from algorithms.piece import piece
from algorithms.precision import at_least_single, working
from algorithms.rollout import Batch

Advantage: TypeAlias = Callable[[Batch], Float[Tensor, "B T"]]

GroupScale: TypeAlias = Callable[[Float64[Tensor, " n"], Int[Tensor, " n"]], Float64[Tensor, " n"]]
"""(centred rewards, index of each rollout's group) -> divisor of each rollout, in units of reward. Rollouts
without an action are not among them."""


def group_centred(
    batch: Batch, *, scale: GroupScale | None = None, eps: float = 1e-6
) -> Float[Tensor, "B T"]:
    r"""Reward minus the mean reward of the rollout's group.

    .. math:: A_i = r_i - \bar r_{g(i)}, \quad\text{with } scale\text{ divided by } \sigma_{g(i)} + \epsilon

    A group of one, or of equal rewards, has no signal: its advantage is exactly zero, never NaN.
    (verl gives a group of one its raw reward instead.) Front doors that mean to learn from groups
    call `require_groups` first.

    Args:
        batch: reads `rewards`, `group_ids`, `action_mask`.
        scale: `sample_std` as in GRPO, `population_std`, or None as in Dr. GRPO.
        eps: added to the divisor, in units of reward; 1e-6 in verl, 1e-4 in TRL.

    Returns:
        Advantages in units of reward (of standard deviations, if scaled), constant along `T`.

    References:
        Shao et al., DeepSeekMath, 2024. https://arxiv.org/abs/2402.03300.
        Liu et al., Dr. GRPO, 2025. https://arxiv.org/abs/2503.20783.
    """
    rewards, group, size = _groups(batch)
    centred = rewards - _group_sum(rewards, group)[group] / size
    # Exactly zero where all agree; a mean of equal numbers may miss them by a rounding error, and a
    # deviation of that size would be scaled up.
    spread = _group_extreme(rewards, group, "amax") - _group_extreme(rewards, group, "amin")
    centred = centred.where(spread[group] > 0, 0.0)
    if scale is not None:
        centred = centred / (scale(centred, group) + eps)
    return _along_tokens(_placed(centred, batch), batch)


def sample_std(centred: Float64[Tensor, " B"], group: Int[Tensor, " B"]) -> Float64[Tensor, " B"]:
    """Standard deviation with n - 1: GRPO in verl, TRL and OpenRLHF. Zero for a group of one."""
    size = _group_sum(torch.ones_like(centred), group)
    return (_group_sum(centred.square(), group) / (size - 1).clamp(min=1)).sqrt()[group]


def population_std(centred: Float64[Tensor, " B"], group: Int[Tensor, " B"]) -> Float64[Tensor, " B"]:
    """Standard deviation with n."""
    size = _group_sum(torch.ones_like(centred), group)
    return (_group_sum(centred.square(), group) / size).sqrt()[group]


group_standardised: Advantage = partial(group_centred, scale=sample_std)
"""GRPO's advantage: centred on the group, divided by its sample standard deviation."""


def leave_one_out(batch: Batch) -> Float[Tensor, "B T"]:
    r"""Reward minus the mean reward of the *other* rollouts of the group.

    .. math:: A_i = r_i - \frac{1}{K-1} \sum_{j \ne i} r_j = \frac{K}{K-1} (r_i - \bar r_{g(i)})

    Without a peer there is no baseline and the advantage is zero, not the raw reward.

    References:
        Ahmadian et al., RLOO, 2024. https://arxiv.org/abs/2402.14740.
    """
    rewards, group, size = _groups(batch)
    centred = rewards - _group_sum(rewards, group)[group] / size
    return _along_tokens(_placed(centred * size / (size - 1).clamp(min=1), batch), batch)


def running_mean(batch: Batch) -> Float[Tensor, "B T"]:
    """Reward minus `Batch.baselines`, a mean of earlier rewards: see `baseline.RewardHistory`.

    Raises:
        ValueError: `baselines` is absent.
    """
    if batch.baselines is None:
        raise ValueError("running_mean needs baselines, got None: fill them from a RewardHistory first")
    return _along_tokens(batch.returns.double() - batch.baselines, batch)


def reward_minus_value(batch: Batch) -> Float[Tensor, "B T"]:
    r"""Rewards still to come minus the critic's value: GAE at gamma = lambda = 1, terminated.

    .. math:: A_t = \sum_{k \ge t} r_k - V(s_t)

    Nothing is bootstrapped after a truncated rollout.

    Raises:
        ValueError: `values` is absent.
    """
    if batch.values is None:
        raise ValueError("reward_minus_value needs values, got None: fill them with the critic first")
    rewards = at_least_single(batch.rewards).where(batch.action_mask, 0.0)
    to_come = rewards.flip(-1).cumsum(-1).flip(-1)
    return (to_come - batch.values).where(batch.action_mask, 0.0).detach()


def require_groups(batch: Batch) -> None:
    """Refuse a batch in which some rollout has no peer to be compared with.

    Raises:
        ValueError: a group of one, named with its id and G=1.
    """
    ids, counts = torch.unique(batch.group_ids[acting(batch)], return_counts=True)
    alone = ids[counts == 1].tolist()
    if alone:
        raise ValueError(
            f"group_ids {alone[:8]} have G=1 rollout each ({len(alone)} of {len(ids)} groups): "
            "a group baseline gives them no signal; sample G >= 2 or use a critic"
        )


def moments(terms: Float[Tensor, "B T"], mask: Bool[Tensor, "B T"]) -> Float64[Tensor, " 3"]:
    """Count, sum and sum of squares over the mask: they add up over ranks; an empty shard adds zeros."""
    kept = terms.detach().where(mask, 0.0).double()
    return torch.stack([mask.sum().double(), kept.sum(), kept.square().sum()])


def whiten(
    advantages: Float[Tensor, "B T"],
    mask: Bool[Tensor, "B T"],
    *,
    total: Float64[Tensor, " 3"],
    eps: float = 1e-8,
) -> Float[Tensor, "B T"]:
    r"""Subtract the mean and divide by the standard deviation (n - 1) of the whole batch's action tokens.

    .. math:: \hat A = (A - \bar A) / (\sigma + \epsilon)

    Fewer than two tokens have no deviation: they come back unchanged.

    Args:
        total: `moments` of the *whole* batch, summed over ranks, so that all shards share one map.
    """
    count, first, second = total[0], total[1], total[2]
    if count < 2:
        return advantages.where(mask, 0.0)
    mean = first / count
    variance = ((second - count * mean.square()) / (count - 1)).clamp(min=0.0)
    return ((advantages - mean) / (variance.sqrt() + eps)).to(advantages.dtype).where(mask, 0.0)


@piece
def whitened(advantage: Advantage) -> Advantage:
    """The same advantage, whitened over the batch it is computed on. (For ranks, see `whiten`.)"""

    def compose(batch: Batch) -> Float[Tensor, "B T"]:
        raw = advantage(batch)
        return whiten(raw, batch.action_mask, total=moments(raw, batch.action_mask))

    return compose


def acting(batch: Batch) -> Bool[Tensor, " B"]:
    """Rollouts that have an action token."""
    return batch.action_mask.any(-1)


def _groups(batch: Batch) -> tuple[Float64[Tensor, " n"], Int[Tensor, " n"], Float64[Tensor, " n"]]:
    """Of each acting rollout: its reward, the index of its group, and how many share that."""
    acts = acting(batch)
    group = torch.unique(batch.group_ids[acts], return_inverse=True)[1]
    size = _group_sum(torch.ones_like(group, dtype=torch.float64), group)[group]
    return batch.returns.double()[acts], group, size


def _placed(per_acting: Float64[Tensor, " n"], batch: Batch) -> Float64[Tensor, " B"]:
    """What `_groups` took out, back at its rows."""
    rows = per_acting.new_zeros(len(batch.action_mask))
    return rows.masked_scatter(acting(batch), per_acting)


def _group_sum(terms: Float64[Tensor, " B"], group: Int[Tensor, " B"]) -> Float64[Tensor, " G"]:
    groups = _count(group)
    return terms.new_zeros(groups).index_add(0, group, terms)


def _group_extreme(
    terms: Float64[Tensor, " B"], group: Int[Tensor, " B"], reduce: str
) -> Float64[Tensor, " G"]:
    groups = _count(group)
    return terms.new_zeros(groups).scatter_reduce(0, group, terms, reduce, include_self=False)


def _count(group: Int[Tensor, " B"]) -> int:
    return int(group.max()) + 1 if len(group) else 0


def _along_tokens(per_rollout: Float64[Tensor, " B"], batch: Batch) -> Float[Tensor, "B T"]:
    typed = per_rollout.to(working(batch.rewards.dtype)).detach()
    return typed[:, None].expand_as(batch.action_mask).where(batch.action_mask, 0.0)
