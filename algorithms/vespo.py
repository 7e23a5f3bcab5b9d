"""Variational sequence-level soft policy optimization."""

from __future__ import annotations

from algorithms.advantage import Advantage, group_standardised
from algorithms.aggregate import Aggregate, token_mean
from algorithms.estimator import Estimator
from algorithms.ratio import per_sequence_product
from algorithms.weighting import soft_weight


def vespo(
    *,
    k_good: float = 2.0,
    lam_good: float = 3.0,
    k_bad: float = 3.0,
    lam_bad: float = 2.0,
    advantage: Advantage = group_standardised,
    aggregate: Aggregate = token_mean,
) -> Estimator:
    r"""VESPO: the whole rollout's ratio w, reshaped to :math:`w^k e^{\lambda(1 - w)}`, weighs its tokens.

    Args:
        k_good, lam_good: k and lambda where A >= 0, as in TRL.
        k_bad, lam_bad: k and lambda where A < 0, as in TRL.
        advantage, aggregate: *choice*, GRPO's advantage and the token mean.

    Raises:
        ValueError: a parameter that is not positive and finite.

    References:
        VESPO, 2026. https://arxiv.org/abs/2602.10693.
    """
    return Estimator(
        advantage=advantage,
        log_ratio=per_sequence_product,
        trust=soft_weight(k_good=k_good, lam_good=lam_good, k_bad=k_bad, lam_bad=lam_bad),
        aggregate=aggregate,
    )
