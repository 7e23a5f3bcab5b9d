"""IcePop and KPop: GRPO without the tokens on which trainer and engine disagree."""

from __future__ import annotations

from algorithms import rejection
from algorithms.aggregate import Aggregate, sequence_mean
from algorithms.correction import Correction, unweighted
from algorithms.estimator import Estimator
from algorithms.grpo import grpo_corrected
from algorithms.rejection import token_band


def icepop(
    *,
    floor: float = 0.5,
    ceiling: float = 5.0,
    eps_low: float = 0.2,
    eps_high: float = 0.28,
    aggregate: Aggregate = sequence_mean,
    kept_only: bool = False,
) -> Estimator:
    r"""GRPO against pi_old, each token weighted by pi_old / mu inside a band and dropped outside.

    Args:
        floor, ceiling: bounds on the ratio: (0.5, 5.0) in Ring-1T, (0.5, 2.0) in GLM-5.
        eps_low, eps_high: half-widths of the clip on pi / pi_old.
        aggregate: how tokens are averaged.
        kept_only: *choice*, False: dropped tokens stay in the divisor.

    Raises:
        ValueError: an option outside its range.

    References:
        Ling Team, Every Step Evolves (Ring-1T), 2025. https://arxiv.org/abs/2510.18855.
    """
    return grpo_corrected(
        token_band(floor=floor, ceiling=ceiling),
        eps_low=eps_low,
        eps_high=eps_high,
        aggregate=aggregate,
        kept_only=kept_only,
    )


def kpop(
    *,
    delta: float = 0.1,
    weight: Correction = unweighted,
    eps_low: float = 0.2,
    eps_high: float = 0.28,
    aggregate: Aggregate = sequence_mean,
    kept_only: bool = False,
) -> Estimator:
    """GRPO against pi_old, a token dropped where its binary divergence from the engine's is large.

    Args:
        delta: *choice*, 0.1 nats, in either direction.
        weight: *choice*, `unweighted`: of a token that is kept; `correction.token_ratio` weighs as IcePop.
        eps_low, eps_high: half-widths of the clip on pi / pi_old.
        aggregate: how tokens are averaged.
        kept_only: *choice*, False: dropped tokens stay in the divisor.

    Raises:
        ValueError: an option outside its range.

    References:
        Guo et al., KPop, 2026. https://ringtech.notion.site/kpop.
    """
    return grpo_corrected(
        rejection.kpop(delta, weight=weight),
        eps_low=eps_low,
        eps_high=eps_high,
        aggregate=aggregate,
        kept_only=kept_only,
    )
