"""Truncated importance sampling: GRPO whose tokens weigh what a bounded ratio says."""

from __future__ import annotations

from algorithms.aggregate import Aggregate, sequence_mean
from algorithms.correction import sequence_truncated, token_truncated
from algorithms.estimator import Estimator
from algorithms.grpo import grpo_corrected


def token_tis(
    *, cap: float = 2.0, eps_low: float = 0.2, eps_high: float = 0.28, aggregate: Aggregate = sequence_mean
) -> Estimator:
    r"""GRPO against pi_old, each token weighted by :math:`\min(\pi_{old}/\mu, C)`.

    The bias is bounded by what lies above C; nothing is dropped, so every divisor is GRPO's.

    Args:
        cap: C: 2 by default as in SkyRL, 3 in TRL, 1.2 in ROLL.
        eps_low, eps_high: half-widths of the clip on pi / pi_old.
        aggregate: how tokens are averaged.

    Raises:
        ValueError: an option outside its range.

    References:
        Yao et al., Your Efficient RL Framework Secretly Brings You Off-Policy RL Training, 2025.
        https://fengyao.notion.site/off-policy-rl.
    """
    return grpo_corrected(token_truncated(cap), eps_low=eps_low, eps_high=eps_high, aggregate=aggregate)


def sequence_tis(
    *, cap: float = 2.0, eps_low: float = 0.2, eps_high: float = 0.28, aggregate: Aggregate = sequence_mean
) -> Estimator:
    r"""GRPO against pi_old, each rollout weighted by :math:`\min\bigl(\prod_t \pi_{old}/\mu,\ C\bigr)`.

    verl's default. verl may divide the truncated weights by their mean; this does not.

    Args:
        cap: C, 2 in verl.
        eps_low, eps_high: half-widths of the clip on pi / pi_old.
        aggregate: how tokens are averaged.

    Raises:
        ValueError: an option outside its range.

    References:
        Liu, Li et al., When Speed Kills Stability, 2025. https://richardli.xyz/rl-collapse.
    """
    return grpo_corrected(sequence_truncated(cap), eps_low=eps_low, eps_high=eps_high, aggregate=aggregate)
