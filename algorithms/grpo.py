"""Group Relative Policy Optimization, and what becomes of it when rollouts are stale.

All three centre rewards on the group, divide by its sample standard deviation and let every rollout
weigh the same (`sequence_mean`: the published objective; DAPO and many trainers use `token_mean`).
None carries the KL term to a reference model. Relatives have files of their own: `dapo`, `dr_grpo`, `gspo`.
"""

from __future__ import annotations

import dataclasses

from algorithms.advantage import group_standardised
from algorithms.aggregate import Aggregate, sequence_mean
from algorithms.correction import Correction
from algorithms.estimator import Estimator
from algorithms.ratio import per_token, per_token_old
from algorithms.trust import double_sided_mask, ppo_clip


def grpo(*, eps_low: float = 0.2, eps_high: float = 0.28, aggregate: Aggregate = sequence_mean) -> Estimator:
    """A group for a baseline, PPO's clip against the trainer's latest weights for trust.

    As usually run asynchronously: the ratio never sees the engine's log-probs, so staleness goes
    uncorrected. The small number beside the deviation is verl's 1e-6, and a group of one has advantage
    zero: see `advantage.group_centred`. Nothing bounds a bad token's ratio from above but `trust.dual_clip`.

    Args:
        eps_low, eps_high: half-widths of the clip. The upper default is DAPO's clip-higher; GRPO as published
            has 0.2 on both sides.
        aggregate: *choice*, `sequence_mean` as published.

    Raises:
        ValueError: `eps_low` or `eps_high` outside its range.

    References:
        Shao et al., DeepSeekMath, 2024. https://arxiv.org/abs/2402.03300.
        Yu et al., DAPO, 2025. https://arxiv.org/abs/2503.14476.
    """
    return Estimator(
        advantage=group_standardised,
        log_ratio=per_token_old,
        trust=ppo_clip(eps_low, eps_high),
        aggregate=aggregate,
    )


def grpo_behaviour_clip(
    *, eps_low: float = 0.2, eps_high: float = 0.28, aggregate: Aggregate = sequence_mean
) -> Estimator:
    """A group for a baseline, PPO's one-sided clip against the engine that sampled each token.

    Args:
        eps_low, eps_high, aggregate: as for `grpo`.

    Raises:
        ValueError: `eps_low` or `eps_high` outside its range.

    References:
        Shao et al., DeepSeekMath, 2024. https://arxiv.org/abs/2402.03300.
    """
    return Estimator(
        advantage=group_standardised,
        log_ratio=per_token,
        trust=ppo_clip(eps_low, eps_high),
        aggregate=aggregate,
    )


def grpo_dis(
    *, eps_low: float = 0.3, eps_high: float = 5.0, aggregate: Aggregate = sequence_mean
) -> Estimator:
    """A group for a baseline, SAO's double-sided mask against the engine that sampled each token.

    The "GRPO + DIS" arm of SAO's paper.

    Args:
        eps_low, eps_high: half-widths of the open band, SAO's.
        aggregate: *choice*, `sequence_mean`, so that it differs from `grpo` in its trust region alone.

    Raises:
        ValueError: `eps_low` or `eps_high` outside its range.

    References:
        Hou et al., SAO, 2026. https://arxiv.org/abs/2607.07508.
    """
    return Estimator(
        advantage=group_standardised,
        log_ratio=per_token,
        trust=double_sided_mask(eps_low, eps_high),
        aggregate=aggregate,
    )


def grpo_corrected(
    correction: Correction,
    *,
    eps_low: float,
    eps_high: float,
    aggregate: Aggregate = sequence_mean,
    kept_only: bool = False,
) -> Estimator:
    """GRPO against pi_old, times a detached weight made of pi_old / mu: what TIS, MIS and IcePop share.

    Args:
        correction: weight of each token; zero drops it.
        eps_low, eps_high: half-widths of the clip on pi / pi_old.
        aggregate: how tokens are averaged.
        kept_only: whether dropped tokens leave the divisor too.
    """
    return dataclasses.replace(
        grpo(eps_low=eps_low, eps_high=eps_high, aggregate=aggregate),
        correction=correction,
        kept_only=kept_only,
    )
