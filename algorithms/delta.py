"""Two-sided clipping: PPO's clip with a bound on bad tokens whose probability rose."""

from __future__ import annotations

from algorithms.advantage import Advantage, group_standardised
from algorithms.aggregate import Aggregate, sequence_mean
from algorithms.estimator import Estimator
from algorithms.piece import piece
from algorithms.ratio import LogRatio, per_token
from algorithms.trust import TrustRegion, dual_clip


@piece
def delta_clip(low: float, high: float, *, delta: float) -> TrustRegion:
    r"""PPO's clip of a ratio that is first cut at delta.

    .. math:: \min\bigl(\min(\rho, \delta) A,\ \mathrm{clip}(\rho,\ 1-\ell,\ 1+h)\, A\bigr)

    Because delta exceeds the upper edge it binds for negative advantages only, where the surrogate stops at
    :math:`\delta A`: the same function as `dual_clip` with `cap` at delta.

    Args:
        low: half-width below one, in (0, 1).
        high: half-width above one.
        delta: a bound on the ratio, above 1 + `high`; infinity is PPO's clip.

    Raises:
        ValueError: `low`, `high` or `delta` outside its range.

    References:
        INTELLECT-2, 2025. https://arxiv.org/abs/2505.07291.
    """
    if not delta > 1 + high:
        raise ValueError(f"delta must exceed 1 + high = {1 + high}, got {delta}: a bound on the ratio")
    return dual_clip(low, high, cap=delta)


def grpo_delta(
    *,
    eps_low: float = 0.2,
    eps_high: float = 0.2,
    delta: float = 4.0,
    log_ratio: LogRatio = per_token,
    advantage: Advantage = group_standardised,
    aggregate: Aggregate = sequence_mean,
) -> Estimator:
    """GRPO with two-sided clipping: a group for a baseline, a ratio bounded for both signs of advantage.

    Args:
        eps_low, eps_high: half-widths of the clip.
        delta: largest ratio of a bad token: 4 in INTELLECT-2; TRL has it off by default.
        log_ratio: *choice*, `per_token`; `per_token_old` lets only the trainer's own steps count.
        advantage, aggregate: *choice*, GRPO's.

    Raises:
        ValueError: an option outside its range.

    References:
        INTELLECT-2, 2025. https://arxiv.org/abs/2505.07291.
    """
    return Estimator(
        advantage=advantage,
        log_ratio=log_ratio,
        trust=delta_clip(eps_low, eps_high, delta=delta),
        aggregate=aggregate,
    )
