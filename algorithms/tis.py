"""Truncated importance sampling: GRPO whose tokens weigh what a bounded ratio says."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable
from typing import TypeAlias

from jaxtyping import Bool, Float
from torch import Tensor

from algorithms.aggregate import Aggregate, sequence_mean
from algorithms.correction import sequence_truncated, token_truncated, unweighted
from algorithms.estimator import Adapt, Estimator
from algorithms.grpo import grpo_corrected
from algorithms.piece import piece
from algorithms.rollout import Batch

WeightMean: TypeAlias = Callable[[Float[Tensor, "B T"], Bool[Tensor, "B T"]], Float[Tensor, ""]]
"""(weights, action tokens) -> their mean."""


def over_tokens(weights: Float[Tensor, "B T"], mask: Bool[Tensor, "B T"]) -> Float[Tensor, ""]:
    """The mean over action tokens; zero without any."""
    return weights.double().where(mask, 0.0).sum() / mask.sum().clamp(min=1)


def over_rollouts(weights: Float[Tensor, "B T"], mask: Bool[Tensor, "B T"]) -> Float[Tensor, ""]:
    """The mean over rollouts of each one's mean; a rollout without an action token is none."""
    each = weights.double().where(mask, 0.0).sum(-1) / mask.sum(-1).clamp(min=1)
    return each.sum() / mask.any(-1).sum().clamp(min=1)


@piece
def mean_one(mean: WeightMean) -> Adapt:
    r"""An `Estimator.adapt` that divides the correction by its mean over the whole batch.

    .. math:: \bar w_t = w_t \big/ \mathrm{mean}(w)

    verl's batch normalisation, after truncation: the step keeps its size when most weights are small. The
    weights are then no longer bounded by the cap. A mean of zero divides nothing.

    Args:
        mean: `over_tokens` where a token has its own weight, `over_rollouts` where a rollout has.

    References:
        verl. https://github.com/volcengine/verl.
    """

    def adapt(
        estimator: Estimator,
        log_probs: Float[Tensor, "B T"],  # noqa: ARG001
        batch: Batch,
        advantages: Float[Tensor, "B T"],  # noqa: ARG001
    ) -> Estimator:
        weight = estimator.correction or unweighted
        divisor = float(mean(weight(batch), batch.action_mask)) or 1.0
        return dataclasses.replace(estimator, correction=lambda some: weight(some) / divisor)

    return adapt


def token_tis(
    *,
    cap: float = 2.0,
    eps_low: float = 0.2,
    eps_high: float = 0.28,
    aggregate: Aggregate = sequence_mean,
    normalise: WeightMean | None = None,
) -> Estimator:
    r"""GRPO against pi_old, each token weighted by :math:`\min(\pi_{old}/\mu, C)`.

    The bias is bounded by what lies above C; nothing is dropped, so every divisor is GRPO's.

    Args:
        cap: C: 2 by default as in SkyRL, 3 in TRL, 1.2 in ROLL.
        eps_low, eps_high: half-widths of the clip on pi / pi_old.
        aggregate: how tokens are averaged.
        normalise: None; `over_tokens` divides the truncated weights by their mean, an option of verl's.

    Raises:
        ValueError: an option outside its range.

    References:
        Yao et al., Your Efficient RL Framework Secretly Brings You Off-Policy RL Training, 2025.
        https://fengyao.notion.site/off-policy-rl.
    """
    estimator = grpo_corrected(token_truncated(cap), eps_low=eps_low, eps_high=eps_high, aggregate=aggregate)
    return dataclasses.replace(estimator, adapt=mean_one(normalise) if normalise else None)


def sequence_tis(
    *,
    cap: float = 2.0,
    eps_low: float = 0.2,
    eps_high: float = 0.28,
    aggregate: Aggregate = sequence_mean,
    normalise: WeightMean | None = None,
) -> Estimator:
    r"""GRPO against pi_old, each rollout weighted by :math:`\min\bigl(\prod_t \pi_{old}/\mu,\ C\bigr)`.

    verl's default.

    Args:
        cap: C, 2 in verl.
        eps_low, eps_high: half-widths of the clip on pi / pi_old.
        aggregate: how tokens are averaged.
        normalise: None; `over_rollouts` divides the truncated weights by their mean, an option of verl's.

    Raises:
        ValueError: an option outside its range.

    References:
        Liu, Li et al., When Speed Kills Stability, 2025. https://richardli.xyz/rl-collapse.
    """
    estimator = grpo_corrected(
        sequence_truncated(cap), eps_low=eps_low, eps_high=eps_high, aggregate=aggregate
    )
    return dataclasses.replace(estimator, adapt=mean_one(normalise) if normalise else None)
