"""Kimi k1.5's policy mirror descent (OPMD): no ratio, but a pull towards the old policy."""

from __future__ import annotations

from collections.abc import Callable

from algorithms.advantage import Advantage, group_centred
from algorithms.aggregate import Aggregate, token_mean
from algorithms.estimator import Estimator, Regulariser
from algorithms.penalty import squared_log_ratio
from algorithms.ratio import per_token_old
from algorithms.trust import score


def kimi(
    *,
    tau: float = 0.1,
    pull: Callable[[float], Regulariser] = squared_log_ratio,
    advantage: Advantage = group_centred,
    aggregate: Aggregate = token_mean,
) -> Estimator:
    r"""Kimi's OPMD: a group mean for a baseline, plain REINFORCE, a squared log-ratio instead of a clip.

    .. math:: \min\ -A \log\pi + \frac{\tau}{2} \Bigl(\log\frac{\pi}{\pi_{old}}\Bigr)^2

    Args:
        tau: strength of the pull; 0 is REINFORCE.
        pull: *choice*, `squared_log_ratio` of each token, as in ROLL; with `squared_rollout_log_ratio` and
            `aggregate=constant(1)` it is the paper's, which squares the sum over a rollout.
        advantage: *choice*, the reward minus the group's mean.
        aggregate: *choice*, `token_mean` as in ROLL.

    Raises:
        ValueError: `tau` is negative or not finite.

    References:
        Kimi k1.5, 2025. https://arxiv.org/abs/2501.12599.
    """
    return Estimator(
        advantage=advantage,
        log_ratio=per_token_old,
        trust=score,
        aggregate=aggregate,
        regularisers=(pull(tau / 2),),
    )
