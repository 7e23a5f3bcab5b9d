"""Regularisers: what a token costs for having moved, whatever its advantage.

They read every action token, also those that a trust region dropped.
"""

from __future__ import annotations

import math

from algorithms.estimator import Regulariser
from algorithms.piece import piece
from algorithms.ratio import LogRatio, per_sequence_product, per_token_old


@piece
def squared_log_ratio(weight: float, log_ratio: LogRatio = per_token_old) -> Regulariser:
    r"""The squared log-ratio of each token: :math:`w\,(\log\rho_t)^2`, zero with zero gradient at one.

    Args:
        weight: in units of surrogate for each squared nat.
        log_ratio: against what: `per_token_old`, or `per_token` for the engine that sampled.

    Raises:
        ValueError: `weight` is negative or not finite.
    """
    if not 0 <= weight < math.inf:
        raise ValueError(f"weight must be finite and not negative, got {weight}")
    return lambda log_probs, batch: weight * log_ratio(log_probs, batch).square()


@piece
def squared_rollout_log_ratio(weight: float) -> Regulariser:
    r"""The squared log-ratio of a whole rollout against mu: :math:`w\,(\sum_t \log\rho_t)^2`.

    Each of its L action tokens carries one L-th, so that `constant(1)` counts it once.

    Raises:
        ValueError: `weight` is negative or not finite.
    """
    whole = squared_log_ratio(weight, per_sequence_product)
    return lambda log_probs, batch: whole(log_probs, batch) / batch.action_tokens[:, None].clamp(min=1)
