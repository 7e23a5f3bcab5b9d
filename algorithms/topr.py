"""Tapered Off-Policy REINFORCE."""

from __future__ import annotations

from algorithms.advantage import Advantage, group_centred
from algorithms.aggregate import Aggregate, token_mean
from algorithms.estimator import Estimator
from algorithms.ratio import LogRatio, per_sequence_product
from algorithms.weighting import tapered_off_policy


def topr(
    *,
    log_ratio: LogRatio = per_sequence_product,
    advantage: Advantage = group_centred,
    aggregate: Aggregate = token_mean,
) -> Estimator:
    r"""TOPR: good rollouts are imitated at full weight, bad ones only as far as the policy still makes them.

    .. math:: A \ge 0:\ A \log\pi, \qquad A < 0:\ \mathrm{sg}[\min(\rho, 1)]\, A \log\pi

    Args:
        log_ratio: *choice*, `per_sequence_product`, the paper's ratio of the whole trajectory; `per_token` is
            ROLL's and weighs each bad token by itself.
        advantage: *choice*, the reward minus the group's mean; the paper splits by the sign of the
            reward itself.
        aggregate: *choice*, `token_mean`.

    References:
        Le Roux et al., TOPR, 2025. https://arxiv.org/abs/2503.14286.
    """
    return Estimator(advantage=advantage, log_ratio=log_ratio, trust=tapered_off_policy, aggregate=aggregate)
