r"""REINFORCE with a truncated importance weight: :math:`\mathrm{sg}[\mathrm{clip}(\rho, f, C)]\, A \log\pi`.

The ratio is against the engine that sampled each token, so no pi_old is needed: one forward pass fewer. The
three systems differ in the bounds of the weight and, by their scripts, in the advantage and the mean.
"""

from __future__ import annotations

from algorithms.advantage import Advantage, group_centred, group_standardised
from algorithms.aggregate import Aggregate, token_mean
from algorithms.estimator import Estimator
from algorithms.ratio import per_token
from algorithms.weighting import truncated_weight


def pipelinerl(
    *, cap: float = 5.0, advantage: Advantage = group_centred, aggregate: Aggregate = token_mean
) -> Estimator:
    """PipelineRL: a group mean for a baseline, weights up to 5, weights updated while engines generate.

    Args:
        cap: largest weight: 5 in the paper; its code clips at 1 + eps_high instead.
        advantage: *choice*, the reward minus the group's mean.
        aggregate: *choice*, `token_mean`.

    Raises:
        ValueError: `cap` below 1.

    References:
        Piché et al., PipelineRL, 2025. https://arxiv.org/abs/2509.19128.
    """
    return _truncated(0.0, cap, advantage, aggregate)


def aipo(
    *, cap: float = 4.0, advantage: Advantage = group_centred, aggregate: Aggregate = token_mean
) -> Estimator:
    """AIPO of LlamaRL: a group mean for a baseline, weights cut above only.

    Args:
        cap: *choice*, 4: the largest weight, 2 to 10 in the paper.
        advantage: *choice*, the reward minus the group's mean.
        aggregate: *choice*, `token_mean`.

    Raises:
        ValueError: `cap` below 1.

    References:
        Wu et al., LlamaRL, 2025. https://arxiv.org/abs/2505.24034.
    """
    return _truncated(0.0, cap, advantage, aggregate)


def torchforge_reinforce(
    *,
    floor: float = 0.1,
    cap: float = 10.0,
    advantage: Advantage = group_standardised,
    aggregate: Aggregate = token_mean,
) -> Estimator:
    """torchforge's REINFORCE: weights cut on both sides, so that no token ever weighs less than a tenth.

    Args:
        floor, cap: smallest and largest weight, bounds on the ratio.
        advantage: *choice*, GRPO's.
        aggregate: *choice*, `token_mean`.

    Raises:
        ValueError: `floor` outside [0, 1] or `cap` below 1.

    References:
        https://github.com/meta-pytorch/torchforge.
    """
    return _truncated(floor, cap, advantage, aggregate)


def _truncated(floor: float, cap: float, advantage: Advantage, aggregate: Aggregate) -> Estimator:
    return Estimator(
        advantage=advantage,
        log_ratio=per_token,
        trust=truncated_weight(floor=floor, cap=cap),
        aggregate=aggregate,
    )
