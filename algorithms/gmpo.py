"""Geometric-Mean Policy Optimization."""

from __future__ import annotations

from jaxtyping import Float
from torch import Tensor

from algorithms.advantage import Advantage, group_standardised
from algorithms.aggregate import Aggregate, sequence_mean
from algorithms.estimator import Estimator
from algorithms.piece import piece
from algorithms.ratio import LogRatio, bounded_exp, per_token_old
from algorithms.trust import TrustRegion


@piece
def geometric_mean_clip(low: float, high: float) -> TrustRegion:
    r"""Clip each token's log-ratio pessimistically, then let the rollout's geometric mean be its ratio.

    .. math:: A \exp\Bigl(\frac{1}{L} \sum_t q_t\Bigr), \qquad
        q_t = \begin{cases} \min(\log\rho_t,\ h) & A > 0 \\ \max(\log\rho_t,\ -\ell) & A < 0 \end{cases}

    A clipped token loses its gradient, its rollout does not. The mean runs over tokens with an advantage:
    over all action tokens, provided that the advantage is the same along a rollout (a rollout without
    one contributes nothing in any case).

    Args:
        low, high: half-widths in *log* space, in nats, positive; infinity bounds nothing.

    Raises:
        ValueError: `low` or `high` is not positive.

    References:
        Zhao et al., GMPO, 2025. https://arxiv.org/abs/2507.20673.
    """
    for name, value in (("low", low), ("high", high)):
        if not value > 0:
            raise ValueError(f"{name} must be positive, got {value}: a half-width in nats")

    def surrogate(
        log_ratio: Float[Tensor, "B T"],
        advantages: Float[Tensor, "B T"],
        log_probs: Float[Tensor, "B T"],  # noqa: ARG001
    ) -> Float[Tensor, "B T"]:
        clipped = log_ratio.clamp(max=high).where(advantages > 0, log_ratio.clamp(min=-low))
        counted = advantages != 0
        total = clipped.where(counted, 0.0).sum(-1, keepdim=True)
        return bounded_exp(total / counted.sum(-1, keepdim=True).clamp(min=1)) * advantages

    return surrogate


def gmpo(
    *,
    eps_low: float = 0.4,
    eps_high: float = 0.4,
    log_ratio: LogRatio = per_token_old,
    advantage: Advantage = group_standardised,
    aggregate: Aggregate = sequence_mean,
) -> Estimator:
    """GMPO: a group for a baseline, the geometric mean of clipped token ratios for trust.

    Args:
        eps_low, eps_high: half-widths in nats: 0.4 in the paper, verl takes PPO's.
        log_ratio: *choice*, `per_token_old` as in the paper; `per_token` sees staleness.
        advantage: *choice*, GRPO's; it must be the same along a rollout.
        aggregate: *choice*, every rollout weighing the same.

    Raises:
        ValueError: `eps_low` or `eps_high` is not positive.

    References:
        Zhao et al., GMPO, 2025. https://arxiv.org/abs/2507.20673.
    """
    return Estimator(
        advantage=advantage,
        log_ratio=log_ratio,
        trust=geometric_mean_clip(eps_low, eps_high),
        aggregate=aggregate,
    )
