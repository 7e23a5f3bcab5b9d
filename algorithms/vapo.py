"""PPO with a critic that long responses do not break: VC-PPO, and VAPO after it."""

from __future__ import annotations

import math
from functools import partial

from jaxtyping import Float
from torch import Tensor

from algorithms.aggregate import Aggregate, token_mean
from algorithms.critic import CriticRecipe, nothing
from algorithms.estimator import Estimator, Regulariser
from algorithms.gae import LambdaRule, length_adaptive, skip_observation_gae
from algorithms.piece import piece
from algorithms.ratio import LogRatio, per_token_old
from algorithms.rollout import Batch
from algorithms.trust import ppo_clip

PRETRAINED = CriticRecipe(
    updates_per_policy_update=1,
    learning_rate_ratio=2.0,
    frozen=nothing,
    critic_only_updates=50,
)
"""The critic of both: pretrained on the resting policy's rollouts towards returns (lambda = 1), then once a
batch. *Choice*: 50 updates of pretraining and twice the policy's learning rate, as recalled; the papers
pretrain until value loss and explained variance are good enough."""


@piece
def positive_nll(weight: float) -> Regulariser:
    r"""Imitate what succeeded: :math:`-w \log\pi(a_t \mid s_t)` on rollouts of positive return, 0 on others.

    *Choice*: "succeeded" is a positive return, and the aggregate's divisor counts all rollouts. VAPO's
    mean runs over the tokens of the successful ones, so there the term keeps its size where few succeed.

    Raises:
        ValueError: `weight` is negative or not finite.
    """
    if not 0 <= weight < math.inf:
        raise ValueError(f"weight must be finite and not negative, got {weight}")

    def penalty(log_probs: Float[Tensor, "B T"], batch: Batch) -> Float[Tensor, "B T"]:
        succeeded = batch.action_mask & (batch.returns > 0)[:, None]
        return -weight * log_probs.where(succeeded, 0.0)

    return penalty


def vapo(
    *,
    eps_low: float = 0.2,
    eps_high: float = 0.28,
    alpha: float = 0.05,
    imitation: float = 0.1,
    critic: CriticRecipe = PRETRAINED,
    log_ratio: LogRatio = per_token_old,
    aggregate: Aggregate = token_mean,
) -> Estimator:
    r"""VAPO: decoupled, length-adaptive GAE; PPO's clip, wider above; a pull towards what succeeded.

    .. math:: \lambda_{critic} = 1, \qquad \lambda_{policy} = 1 - \frac{1}{\alpha\, l}

    Made for long responses: with alpha = 0.05 a rollout under 20 action tokens is refused. SAO's arm "VAPO
    without DIS" is this.

    Args:
        eps_low, eps_high: half-widths of the clip.
        alpha: share of the rollout over which lambda forgets.
        imitation: weight of `positive_nll`, recalled; 0 leaves it out.
        critic: see `PRETRAINED`.
        log_ratio: *choice*, `per_token_old`; `per_token` sees staleness.
        aggregate: `token_mean`, as published.

    Raises:
        ValueError: an option outside its range; on use, a rollout shorter than 1 / alpha action tokens.

    References:
        Yue et al., VAPO, 2025. https://arxiv.org/abs/2504.05118.
    """
    return _ppo(
        length_adaptive(alpha),
        eps_low=eps_low,
        eps_high=eps_high,
        critic=critic,
        log_ratio=log_ratio,
        aggregate=aggregate,
        regularisers=(positive_nll(imitation),) if imitation else (),
    )


def vc_ppo(
    *,
    eps_low: float = 0.2,
    eps_high: float = 0.2,
    lam: float = 0.95,
    critic: CriticRecipe = PRETRAINED,
    log_ratio: LogRatio = per_token_old,
    aggregate: Aggregate = token_mean,
) -> Estimator:
    """VC-PPO: PPO with a pretrained critic that learns at lambda = 1 while the policy learns at 0.95.

    Args:
        eps_low, eps_high: half-widths of the clip.
        lam: of the policy's advantage.
        critic: see `PRETRAINED`.
        log_ratio: *choice*, `per_token_old`; `per_token` sees staleness.
        aggregate: *choice*, `token_mean`.

    Raises:
        ValueError: an option outside its range.

    References:
        Yuan et al., What's Behind PPO's Collapse in Long-CoT?, 2025. https://arxiv.org/abs/2503.01491.
    """
    if not 0 <= lam <= 1:
        raise ValueError(f"lam must lie in [0, 1], got {lam}")
    return _ppo(
        lam, eps_low=eps_low, eps_high=eps_high, critic=critic, log_ratio=log_ratio, aggregate=aggregate
    )


def _ppo(
    lam: float | LambdaRule,
    *,
    eps_low: float,
    eps_high: float,
    critic: CriticRecipe,
    log_ratio: LogRatio,
    aggregate: Aggregate,
    regularisers: tuple[Regulariser, ...] = (),
) -> Estimator:
    return Estimator(
        advantage=partial(
            skip_observation_gae,
            lam=lam,
            gamma=critic.gamma,
            bootstrap_truncated=critic.bootstrap_truncated,
        ),
        log_ratio=log_ratio,
        trust=ppo_clip(eps_low, eps_high),
        aggregate=aggregate,
        critic=critic,
        regularisers=regularisers,
    )
