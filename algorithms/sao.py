"""Single-rollout Asynchronous Optimization."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable
from functools import partial

from jaxtyping import Bool, Float
from torch import Tensor

from algorithms.advantage import Advantage, running_mean
from algorithms.aggregate import Aggregate, token_mean
from algorithms.critic import CriticRecipe
from algorithms.estimator import Estimator
from algorithms.gae import length_adaptive, skip_observation_gae
from algorithms.ratio import per_token
from algorithms.trust import TrustRegion, double_sided_mask

Kept = Callable[[Float[Tensor, "B T"]], Bool[Tensor, "B T"]]


def unwhitened(advantage: Advantage) -> Advantage:
    """The advantage as it is."""
    return advantage


def sao(
    *,
    eps_low: float = 0.3,
    eps_high: float = 5.0,
    alpha: float = 1.5,
    gamma: float = 1.0,
    critic: CriticRecipe | None = None,
    bootstrap_truncated: bool = True,
    trust: Callable[[float, float], TrustRegion] = double_sided_mask,
    aggregate: Aggregate = token_mean,
    counted: Callable[[float, float], Kept] | None = None,
    normalise: Callable[[Advantage], Advantage] = unwhitened,
) -> Estimator:
    r"""A critic for a baseline, a double-sided mask for trust, every token weighing the same.

    .. math:: \max\ \mathbb{E}_t\bigl[ f(\rho_t)\, A_t \log\pi(a_t \mid s_t) \bigr], \qquad
        \lambda = 1 - \frac{1}{\alpha\, l}

    One rollout a prompt, no group, no pi_old, no KL, no entropy. No official code exists; what the
    paper leaves open is an option here, marked *choice*.

    Args:
        eps_low, eps_high: half-widths of the open band: 0.3 and 5.0 for reasoning with tools, 0.8
            and 3.0 for coding agents.
        alpha: share of the rollout over which lambda forgets.
        gamma: *choice*, 1: discount from one action token to the next.
        critic: None is the paper's recipe. Its options (what warm-up means, values from before or
            after the fit) are choices of their own; its gamma and bootstrap follow this function's.
        bootstrap_truncated: *choice*, True: value follows a rollout that a length cap cut.
        trust: *choice*, `double_sided_mask`, which detaches f; `double_sided_mask_undetached` is the
            literal reading.
        aggregate: *choice*, `token_mean` over all action tokens; `sequence_mean` is the mean a rollout.
        counted: *choice*, None: dropped tokens stay in the divisor; `trust.inside` leaves them out.
        normalise: *choice*, `unwhitened`; `advantage.whitened` whitens over the batch.

    Raises:
        ValueError: an option outside its range.

    References:
        Hou, Li, Tang, Dong, 2026. https://arxiv.org/abs/2607.07508.
    """
    return Estimator(
        advantage=normalise(
            partial(
                skip_observation_gae,
                gamma=gamma,
                lam=length_adaptive(alpha),
                bootstrap_truncated=bootstrap_truncated,
            )
        ),
        log_ratio=per_token,
        trust=trust(eps_low, eps_high),
        aggregate=aggregate,
        counted=None if counted is None else counted(eps_low, eps_high),
        critic=dataclasses.replace(
            critic or CriticRecipe(), gamma=gamma, bootstrap_truncated=bootstrap_truncated
        ),
    )


def sao_running_mean(*, eps_low: float = 0.3, eps_high: float = 5.0) -> Estimator:
    """SAO's ablation without a critic: a running mean of earlier rewards for a baseline.

    The learner fills `Batch.baselines` from a `baseline.RewardHistory`: of each prompt's last 8 rewards, or
    of the last 128 of all prompts where none comes back.

    Args:
        eps_low, eps_high: half-widths of the open band.

    Raises:
        ValueError: `eps_low` or `eps_high` outside its range.

    References:
        Hou, Li, Tang, Dong, SAO, 2026. https://arxiv.org/abs/2607.07508.
    """
    return Estimator(
        advantage=running_mean,
        log_ratio=per_token,
        trust=double_sided_mask(eps_low, eps_high),
        aggregate=token_mean,
    )
