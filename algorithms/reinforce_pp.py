"""REINFORCE++: PPO's clip without a critic; advantages are whitened over the whole batch."""

from __future__ import annotations

from jaxtyping import Float
from torch import Tensor

from algorithms.advantage import group_centred, whitened
from algorithms.aggregate import Aggregate, token_mean
from algorithms.estimator import Estimator
from algorithms.precision import at_least_single
from algorithms.ratio import LogRatio, per_token_old
from algorithms.rollout import Batch
from algorithms.trust import ppo_clip


def rewards_to_come(batch: Batch) -> Float[Tensor, "B T"]:
    r"""Rewards from this token on, without discount: :math:`\sum_{k \ge t} r_k`."""
    rewards = at_least_single(batch.rewards).where(batch.action_mask, 0.0)
    return rewards.flip(-1).cumsum(-1).flip(-1).where(batch.action_mask, 0.0).detach()


def reinforce_pp(
    *,
    eps_low: float = 0.2,
    eps_high: float = 0.2,
    log_ratio: LogRatio = per_token_old,
    aggregate: Aggregate = token_mean,
) -> Estimator:
    """REINFORCE++: rewards to come, whitened over all tokens of the batch, no group at all.

    The batch's mean is the baseline, so easy prompts are praised and hard ones blamed whatever was sampled.
    The reward carries no KL term here.

    Args:
        eps_low, eps_high: half-widths of the clip.
        log_ratio: *choice*, `per_token_old` as in the paper; `per_token` sees staleness.
        aggregate: *choice*, `token_mean`; the paper's equation averages over each rollout first.

    Raises:
        ValueError: `eps_low` or `eps_high` outside its range.

    References:
        Hu et al., REINFORCE++, 2025. https://arxiv.org/abs/2501.03262.
    """
    return Estimator(
        advantage=whitened(rewards_to_come),
        log_ratio=log_ratio,
        trust=ppo_clip(eps_low, eps_high),
        aggregate=aggregate,
    )


def reinforce_pp_baseline(
    *,
    eps_low: float = 0.2,
    eps_high: float = 0.2,
    log_ratio: LogRatio = per_token_old,
    aggregate: Aggregate = token_mean,
) -> Estimator:
    """REINFORCE++-baseline: the group's mean for a baseline, the batch's deviation for a scale.

    Whitening also subtracts the mean over tokens, which is not zero where rollouts differ in length (as in
    verl); a group without signal then gets a small one. `cispo.batch_std` only scales.

    Args:
        eps_low, eps_high, log_ratio, aggregate: as for `reinforce_pp`.

    Raises:
        ValueError: `eps_low` or `eps_high` outside its range.

    References:
        Hu et al., REINFORCE++, 2025, appendix A. https://arxiv.org/abs/2501.03262.
    """
    return Estimator(
        advantage=whitened(group_centred),
        log_ratio=log_ratio,
        trust=ppo_clip(eps_low, eps_high),
        aggregate=aggregate,
    )
