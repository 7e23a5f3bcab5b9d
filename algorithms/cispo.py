"""Clipped importance weights instead of clipped updates: every token keeps its gradient."""

from __future__ import annotations

import dataclasses
from functools import partial

import torch
from jaxtyping import Float64, Int
from torch import Tensor

from algorithms.advantage import Advantage, group_centred, group_standardised
from algorithms.aggregate import Aggregate, token_mean
from algorithms.estimator import Adapt, Estimator
from algorithms.prompt_mean import each_prompt_alike
from algorithms.ratio import LogRatio, per_token, per_token_old
from algorithms.weighting import clipped_weight


def batch_std(centred: Float64[Tensor, " B"], group: Int[Tensor, " B"]) -> Float64[Tensor, " B"]:  # noqa: ARG001
    """Standard deviation (n - 1) of the centred rewards over the whole batch, whatever their group."""
    if len(centred) < 2:
        return torch.zeros_like(centred)
    return centred.std().expand_as(centred)


_OVER_BATCH = partial(group_centred, scale=batch_std)


def cispo(
    *,
    eps_low: float = 1.0,
    eps_high: float = 0.2,
    log_ratio: LogRatio = per_token_old,
    advantage: Advantage = group_standardised,
    aggregate: Aggregate = token_mean,
) -> Estimator:
    r"""CISPO: a group for a baseline, the clipped and detached ratio for a weight, every token alike.

    .. math:: \max\ \mathrm{sg}[\mathrm{clip}(r,\ 1-\epsilon_l,\ 1+\epsilon_h)]\, A \log\pi

    Args:
        eps_low: *choice*, 1: no lower bound, as in the paper; verl has 0.2, ROLL 0.1.
        eps_high: *choice*, 0.2 as in verl: the paper never says. A half-width: open-instruct has 0.272,
            ROLL 0.1, AReaL 4.0. (One library calls the *bound* 1 + eps_high its epsilon_high.)
        log_ratio: *choice*, `per_token_old` as in the paper; `per_token` corrects staleness.
        advantage, aggregate: *choice*, GRPO's advantage and the token mean, as in the paper.

    Raises:
        ValueError: `eps_low` or `eps_high` outside its range.

    References:
        MiniMax-M1, 2025. https://arxiv.org/abs/2506.13585.
    """
    return Estimator(
        advantage=advantage,
        log_ratio=log_ratio,
        trust=clipped_weight(eps_low, eps_high),
        aggregate=aggregate,
    )


def scalerl(
    *,
    eps_high: float = 4.0,
    advantage: Advantage = _OVER_BATCH,
    average: Adapt | None = each_prompt_alike,
) -> Estimator:
    r"""ScaleRL's loss: CISPO against the engine that sampled, weight at most 5, every prompt alike.

    .. math:: \max\ \frac{1}{P} \sum_{g} \frac{1}{N_g} \sum_{i \in g,\, t}
        \mathrm{sg}[\min(\rho,\ 1+\epsilon_h)]\, A \log\pi

    Advantages are scaled over the batch. The recipe's dropping of groups without signal is
    `dapo.drop_uniform_groups`.

    Args:
        eps_high: half-width above one; nothing bounds the weight below.
        advantage: *choice*, centred on the group and divided by the deviation over the batch.
        average: `each_prompt_alike`; None leaves the token mean.

    Raises:
        ValueError: `eps_high` outside its range.

    References:
        Khatri et al., ScaleRL, 2025. https://arxiv.org/abs/2510.13786.
    """
    estimator = cispo(eps_high=eps_high, log_ratio=per_token, advantage=advantage)
    return dataclasses.replace(estimator, adapt=average)
