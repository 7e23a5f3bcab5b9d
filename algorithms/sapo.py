"""Soft Adaptive Policy Optimization: a smooth gate where PPO has a clip."""

from __future__ import annotations

import math

import torch
from jaxtyping import Float
from torch import Tensor

from algorithms.advantage import Advantage, group_standardised
from algorithms.aggregate import Aggregate, sequence_mean
from algorithms.estimator import Estimator
from algorithms.piece import piece
from algorithms.ratio import LogRatio, bounded_exp, per_token_old
from algorithms.trust import TrustRegion


@piece
def soft_gate(*, tau_good: float = 1.0, tau_bad: float = 1.05) -> TrustRegion:
    r"""A sigmoid of the ratio: the gradient fades smoothly as the policy moves away, on both sides.

    .. math:: \frac{4}{\tau}\,\sigma\bigl(\tau(\rho - 1)\bigr)\, A, \qquad
        \nabla = 4\,\sigma(1-\sigma)\,\rho A\,\nabla\log\pi

    At :math:`\rho = 1` the gradient is :math:`A\nabla\log\pi`, whatever the temperature. As
    :math:`\tau \to 0` it becomes plain importance weighting (the value is then off by a constant).

    Args:
        tau_good: steepness where the advantage is positive.
        tau_bad: steepness elsewhere; a little larger, so that bad tokens fade sooner.

    Raises:
        ValueError: a steepness that is not positive and finite.

    References:
        SAPO, 2025. https://arxiv.org/abs/2511.20347.
    """
    for name, value in (("tau_good", tau_good), ("tau_bad", tau_bad)):
        if not 0 < value < math.inf:
            raise ValueError(f"{name} must be positive and finite, got {value}")

    def surrogate(
        log_ratio: Float[Tensor, "B T"],
        advantages: Float[Tensor, "B T"],
        log_probs: Float[Tensor, "B T"],  # noqa: ARG001
    ) -> Float[Tensor, "B T"]:
        tau = torch.full_like(advantages, tau_bad).masked_fill(advantages > 0, tau_good)
        return 4.0 / tau * (tau * (bounded_exp(log_ratio) - 1.0)).sigmoid() * advantages

    return surrogate


def sapo(
    *,
    tau_good: float = 1.0,
    tau_bad: float = 1.05,
    log_ratio: LogRatio = per_token_old,
    advantage: Advantage = group_standardised,
    aggregate: Aggregate = sequence_mean,
) -> Estimator:
    """SAPO: a group for a baseline, a soft gate for trust, every rollout weighing the same.

    Args:
        tau_good, tau_bad: steepness of the gate, by the sign of the advantage.
        log_ratio: *choice*, `per_token_old` as in the paper; `per_token` sees staleness.
        advantage, aggregate: *choice*, GRPO's.

    Raises:
        ValueError: a steepness that is not positive and finite.

    References:
        SAPO, 2025. https://arxiv.org/abs/2511.20347.
    """
    return Estimator(
        advantage=advantage,
        log_ratio=log_ratio,
        trust=soft_gate(tau_good=tau_good, tau_bad=tau_bad),
        aggregate=aggregate,
    )
