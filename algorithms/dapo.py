"""DAPO: four changes to GRPO, two in the loss and two before it."""

from __future__ import annotations

import dataclasses

import torch
from jaxtyping import Float, Int
from torch import Tensor

from algorithms.advantage import Advantage, acting, group_standardised
from algorithms.aggregate import Aggregate, token_mean
from algorithms.estimator import Estimator
from algorithms.ratio import LogRatio, per_token_old
from algorithms.rollout import Batch
from algorithms.trust import ppo_clip


def dapo(
    *,
    eps_low: float = 0.2,
    eps_high: float = 0.28,
    log_ratio: LogRatio = per_token_old,
    advantage: Advantage = group_standardised,
    aggregate: Aggregate = token_mean,
) -> Estimator:
    """DAPO's loss: a group for a baseline, a clip that is wider above, every token alike, no KL.

    `drop_uniform_groups` and `with_overlong_penalty` are its other half, applied to a batch beforehand.

    Args:
        eps_low, eps_high: half-widths of the clip.
        log_ratio: *choice*, `per_token_old` as in the paper; `per_token` sees staleness.
        advantage, aggregate: *choice*, GRPO's advantage and the token mean, as in the paper.

    Raises:
        ValueError: `eps_low` or `eps_high` outside its range.

    References:
        Yu et al., DAPO, 2025. https://arxiv.org/abs/2503.14476.
    """
    return Estimator(
        advantage=advantage, log_ratio=log_ratio, trust=ppo_clip(eps_low, eps_high), aggregate=aggregate
    )


def overlong_shaping(
    length: Int[Tensor, "*shape"], *, cap: int, cache: int, factor: float = 1.0
) -> Float[Tensor, "*shape"]:
    r"""Soft punishment of long responses: none up to cap - cache, then linear, full at the cap and beyond.

    .. math:: f \cdot \mathrm{clip}\Bigl(\frac{(L_{max} - L_c) - L}{L_c},\ -1,\ 0\Bigr)

    Args:
        length: tokens of each response.
        cap: L_max, 20480 in the paper.
        cache: L_c, 4096 in the paper, in [1, cap].
        factor: size of the full punishment, in units of reward.

    Returns:
        What to add to the reward, at most zero.

    Raises:
        ValueError: `cache` outside [1, cap], or a negative `factor`.

    References:
        Yu et al., DAPO, 2025, equation 13. https://arxiv.org/abs/2503.14476.
    """
    if not 1 <= cache <= cap:
        raise ValueError(f"cache must lie in [1, cap = {cap}], got {cache}")
    if not factor >= 0:
        raise ValueError(f"factor must not be negative, got {factor}")
    return factor * ((cap - cache - length) / cache).clamp(-1.0, 0.0)


def with_overlong_penalty(batch: Batch, *, cap: int, cache: int, factor: float = 1.0) -> Batch:
    """The batch with `overlong_shaping` of its action tokens added to each last action token's reward.

    Raises:
        ValueError: as `overlong_shaping`.
    """
    penalty = overlong_shaping(batch.action_tokens, cap=cap, cache=cache, factor=factor)
    mask = batch.action_mask
    last = mask & (mask.flip(-1).cumsum(-1).flip(-1) == 1)
    rewards = batch.rewards + penalty.to(batch.rewards.dtype)[:, None]
    return dataclasses.replace(batch, rewards=rewards.where(last, batch.rewards))


def drop_uniform_groups(batch: Batch) -> Batch:
    """Dynamic sampling's filter: the rollouts whose group has two different rewards at least.

    A group of one goes too, and a row without a single action token, which has no reward. What is left may
    be empty; DAPO then samples on until a batch is full. Dropping shrinks the divisor of every mean, so the
    step on the others grows.

    References:
        Yu et al., DAPO, 2025, equation 11. https://arxiv.org/abs/2503.14476.
    """
    returns = batch.returns
    acts = acting(batch)
    same_group = (batch.group_ids[:, None] == batch.group_ids[None, :]) & acts[:, None] & acts
    differs = same_group & (returns[:, None] != returns[None, :])
    return batch.rows(torch.nonzero(differs.any(-1))[:, 0])
