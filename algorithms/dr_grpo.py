"""GRPO done right: without the two divisions that favour easy prompts and long mistakes."""

from __future__ import annotations

from algorithms.advantage import group_centred
from algorithms.aggregate import constant
from algorithms.estimator import Estimator
from algorithms.ratio import LogRatio, per_token_old
from algorithms.trust import ppo_clip


def dr_grpo(
    *,
    eps_low: float = 0.2,
    eps_high: float = 0.2,
    tokens: float = 1.0,
    log_ratio: LogRatio = per_token_old,
) -> Estimator:
    r"""Dr. GRPO: a group mean without its deviation, PPO's clip, a sum over tokens with a fixed divisor.

    .. math:: A_i = r_i - \bar r_{g(i)}, \qquad \frac{1}{N L} \sum_{i,t} \ell_{i,t}

    Args:
        eps_low, eps_high: half-widths of the clip.
        tokens: *choice*, L, which only scales the step: the length cap in the paper and TRL, the padded
            length in verl (so that it depends on the batch). At 1 the loss is a sum over tokens.
        log_ratio: *choice*, `per_token_old` as in the paper; `per_token` sees staleness.

    Raises:
        ValueError: an option outside its range.

    References:
        Liu et al., Dr. GRPO, 2025. https://arxiv.org/abs/2503.20783.
    """
    return Estimator(
        advantage=group_centred,
        log_ratio=log_ratio,
        trust=ppo_clip(eps_low, eps_high),
        aggregate=constant(tokens),
    )
