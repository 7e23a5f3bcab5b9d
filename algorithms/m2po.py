r"""M2PO: how far may the tokens of a batch have moved, all of them together?

A second moment of log-ratios is bounded over the batch, so one outlier costs itself its say and a batch
that moved little as a whole is not clipped at all. Two public forms share name and budget, and little else:

- `m2po` *clips*, looks at pi / pi_old, and counts harmful tokens only: those that the update would push
  further from where they were.
- `m2po_areal` *drops*, looks at pi_old / mu, and counts every action token.

*Choice*: the whole batch of an update sets both bounds, through `Estimator.fixed`. Set inside a loss, they
would depend on how the batch is split.
"""

from __future__ import annotations

import dataclasses
import math

import torch
from jaxtyping import Float
from torch import Tensor

from algorithms.advantage import Advantage, group_standardised
from algorithms.aggregate import Aggregate, token_mean
from algorithms.correction import Correction, log_mismatch, token_ratio, unweighted
from algorithms.estimator import Adapt, Estimator
from algorithms.grpo import grpo_corrected
from algorithms.piece import piece
from algorithms.ratio import LogRatio, per_token, per_token_old
from algorithms.rollout import Batch
from algorithms.trust import clipped_in_nats, importance_weighted


def moment_clip(log_ratios: Float[Tensor, " n"], *, budget: float) -> float:
    r"""The clip, in nats, at which the clipped log-ratios spend the budget exactly.

    .. math:: \frac{1}{n} \sum_i \min(d_i, \tau^2) = b, \qquad d_i = (\log r_i)^2

    The sum of minima is the smallest of n + 1 straight lines in :math:`\tau^2`, one for each number k of
    tokens left whole, so the root is the largest of theirs, with the d in rising order:

    .. math:: \tau^2 = \max_{0 \le k < n} \frac{n b - \sum_{i \le k} d_i}{n - k}

    Hence :math:`\tau \ge \sqrt b`, however far tokens have moved.

    Args:
        log_ratios: of the tokens that count, in nats.
        budget: b, in squared nats.

    Returns:
        :math:`\tau`; infinity if the mean of d is within the budget already.
    """
    moved = log_ratios.double().square().sort().values
    n = len(moved)
    if not moved.sum() > n * budget:
        return math.inf
    whole = torch.cat((moved.new_zeros(1), moved[:-1].cumsum(0)))
    cut = torch.arange(n, 0, -1, device=moved.device)
    return math.sqrt(float(((n * budget - whole) / cut).max()))


def largest_kept(squares: Float[Tensor, " n"], *, budget: float) -> float:
    r"""Drop the largest until the mean of the rest is below the budget: the largest that stays.

    *Choice*: equal numbers share a fate, so that the order of tokens decides nothing. They are dropped
    together, unless nothing would stay: the smallest, and all equal to it, always do.

    Args:
        squares: squared log-ratios.
        budget: in squared nats.

    Returns:
        A number to keep up to, inclusive; infinity if nothing is dropped.
    """
    rising = squares.double().sort().values
    n = len(rising)
    means = rising.cumsum(0) / torch.arange(1, n + 1, device=rising.device)
    # The mean of the k smallest never falls with k; rounding may say otherwise among equals.
    kept = int((means < budget).long().cumprod(0).sum())
    if kept == n:
        return math.inf
    below = rising[rising < rising[kept]]
    return float(below[-1] if len(below) else rising[0])


def m2po(
    *,
    budget: float = 0.04,
    least_low: float = 0.0,
    least_high: float = 0.0,
    log_ratio: LogRatio = per_token_old,
    advantage: Advantage = group_standardised,
    aggregate: Aggregate = token_mean,
) -> Estimator:
    r"""PPO's clip at :math:`e^{\pm\tau}`, as tight as the second moment of the batch's harmful tokens asks.

    .. math:: \min\bigl(r A,\ \mathrm{clip}(r,\ e^{-\tau},\ e^{\tau})\, A\bigr), \qquad
        \mathrm{mean}_H \min\bigl((\log r)^2,\ \tau^2\bigr) = b, \qquad
        H = \{A > 0, r > 1\} \cup \{A < 0, r < 1\}

    Without a clip if the mean over H is within b. Before the first update of a batch :math:`r = 1`
    against pi_old, H is empty and nothing is clipped.

    Args:
        budget: b, in squared nats; 0.04 in the paper's code.
        least_low, least_high: half-widths around one that the clip never gets tighter than; the code
            optionally has 0.3 and 0.5. Zero asks nothing.
        log_ratio: `per_token_old`. `per_token` spends the budget on the distance from the engine: pi_old is
            the policy that sampled, wherever the trainer does not score a stale batch again.
        advantage, aggregate: *choice*, GRPO's advantage and the token mean.

    Raises:
        ValueError: `budget` not positive, `least_low` outside [0, 1) or `least_high` negative.

    References:
        Zheng et al., Prosperity before Collapse, 2025. https://arxiv.org/abs/2510.01161.
        https://github.com/Infini-AI-Lab/M2PO.
    """
    _require_budget(budget)
    if not 0 <= least_low < 1:
        raise ValueError(f"least_low must lie in [0, 1), got {least_low}: a half-width, not a bound")
    if not least_high >= 0:
        raise ValueError(f"least_high must not be negative, got {least_high}: a half-width, not a bound")
    return Estimator(
        advantage=advantage,
        log_ratio=log_ratio,
        trust=importance_weighted,
        aggregate=aggregate,
        adapt=_clip_harmful(budget, math.log1p(-least_low), math.log1p(least_high)),
    )


def m2po_areal(
    *,
    budget: float = 0.04,
    eps_low: float = 0.2,
    eps_high: float = 0.2,
    weight: Correction = token_ratio,
    aggregate: Aggregate = token_mean,
    kept_only: bool = True,
) -> Estimator:
    r"""Decoupled PPO without the tokens on which proximal policy and engine disagree most.

    .. math:: m_t = (\log\mu - \log\pi_{prox})^2

    The largest m are dropped until the mean of the rest is below b; one token at least stays. pi_prox is
    `Batch.old_log_probs`, the anchor of decoupled PPO: what the trainer's weights said when it took the
    batch, or what `a3po.interpolated` puts there. `proximal_log_probs` would leave staleness out.

    Args:
        budget: b, in squared nats; 0.04 in AReaL's example.
        eps_low, eps_high: half-widths of the clip on pi / pi_prox; AReaL has 0.2 on both sides.
        weight: *choice*, `token_ratio`, decoupled PPO's: of a token that is kept; `unweighted` only masks.
        aggregate: *choice*, `token_mean`.
        kept_only: *choice*, True: the mask takes the place of the loss's own, so dropped tokens leave the
            divisor. Their rewards stay in the baseline.

    Raises:
        ValueError: an option outside its range.

    References:
        AReaL. https://github.com/inclusionAI/AReaL.
    """
    _require_budget(budget)
    estimator = grpo_corrected(
        weight, eps_low=eps_low, eps_high=eps_high, aggregate=aggregate, kept_only=kept_only
    )
    return dataclasses.replace(estimator, adapt=_drop_largest(budget))


@piece
def _clip_harmful(budget: float, least_floor: float, least_ceiling: float) -> Adapt:
    def adapt(
        estimator: Estimator, log_probs: Float[Tensor, "B T"], batch: Batch, advantages: Float[Tensor, "B T"]
    ) -> Estimator:
        log_ratio = estimator.log_ratio(log_probs, batch)
        away = ((advantages > 0) & (log_ratio > 0)) | ((advantages < 0) & (log_ratio < 0))
        tau = moment_clip(log_ratio[away & batch.action_mask], budget=budget)
        clip = clipped_in_nats(min(-tau, least_floor), max(tau, least_ceiling))
        return dataclasses.replace(estimator, trust=clip)

    return adapt


@piece
def _drop_largest(budget: float) -> Adapt:
    def adapt(
        estimator: Estimator,
        log_probs: Float[Tensor, "B T"],  # noqa: ARG001
        batch: Batch,
        advantages: Float[Tensor, "B T"],  # noqa: ARG001
    ) -> Estimator:
        limit = largest_kept(_squares(batch)[batch.action_mask], budget=budget)
        weight = estimator.correction or unweighted
        return dataclasses.replace(
            estimator, correction=lambda some: weight(some).where(_squares(some) <= limit, 0.0)
        )

    return adapt


def _squares(batch: Batch) -> Float[Tensor, "B T"]:
    # The limit is one of these numbers, and a double holds each exactly: no need to widen them here.
    return log_mismatch(per_token, batch).square()


def _require_budget(budget: float) -> None:
    if not budget > 0:
        raise ValueError(f"budget must be positive, got {budget}")
