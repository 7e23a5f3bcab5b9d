"""Masked importance sampling: whole rollouts on which trainer and engine disagree are left out."""

from __future__ import annotations

from functools import partial

from algorithms.aggregate import Aggregate, sequence_mean, token_mean
from algorithms.correction import Correction, both, sequence_ratio, unweighted
from algorithms.critic import CriticRecipe
from algorithms.estimator import Estimator
from algorithms.gae import skip_observation_gae
from algorithms.grpo import grpo_corrected
from algorithms.ratio import per_token_old
from algorithms.rejection import geometric_band, k3_below, sequence_band, token_band, veto
from algorithms.trust import score


def sequence_mis(
    *,
    floor: float = 0.5,
    ceiling: float = 2.0,
    weight: Correction = sequence_ratio,
    eps_low: float = 0.2,
    eps_high: float = 0.28,
    aggregate: Aggregate = sequence_mean,
    kept_only: bool = False,
) -> Estimator:
    r"""GRPO against pi_old, a rollout weighted by :math:`\prod_t \pi_{old}/\mu` in a band, else dropped.

    Args:
        floor, ceiling: bounds on the product: (0.5, 2.0) in verl's example, (0, 3.0) in TRL.
        weight: of what is kept; `correction.unweighted` only rejects.
        eps_low, eps_high: half-widths of the clip on pi / pi_old.
        aggregate: how tokens are averaged.
        kept_only: *choice*, False: dropped rollouts stay in the divisor, and always in the baseline.

    Raises:
        ValueError: an option outside its range.

    References:
        Liu, Li et al., When Speed Kills Stability, 2025. https://richardli.xyz/rl-collapse.
    """
    return grpo_corrected(
        sequence_band(floor=floor, ceiling=ceiling, weight=weight),
        eps_low=eps_low,
        eps_high=eps_high,
        aggregate=aggregate,
        kept_only=kept_only,
    )


def geometric_rs(
    *,
    floor: float = 0.999,
    ceiling: float = 1.001,
    weight: Correction = unweighted,
    eps_low: float = 0.2,
    eps_high: float = 0.28,
    aggregate: Aggregate = sequence_mean,
    kept_only: bool = False,
) -> Estimator:
    """GRPO against pi_old, a rollout dropped unless its geometric mean of pi_old / mu is near one.

    Args:
        floor, ceiling: bounds on the mean: (0.999, 1.001) in verl, (0.99, 1.01) in SkyRL.
        weight: of what is kept; `correction.token_ratio` with (0.999, 1.002) is NeMo's seq-mask-tis.
        eps_low, eps_high, aggregate, kept_only: as in `sequence_mis`.

    Raises:
        ValueError: an option outside its range.
    """
    return grpo_corrected(
        geometric_band(floor=floor, ceiling=ceiling, weight=weight),
        eps_low=eps_low,
        eps_high=eps_high,
        aggregate=aggregate,
        kept_only=kept_only,
    )


def k3_rs(
    *,
    limit: float = 0.01,
    weight: Correction = unweighted,
    eps_low: float = 0.2,
    eps_high: float = 0.28,
    aggregate: Aggregate = sequence_mean,
    kept_only: bool = False,
) -> Estimator:
    """GRPO against pi_old, a rollout dropped unless its mean k3 between pi_old and mu is small.

    Args:
        limit: nats a token; 0.01 in verl.
        weight: of what is kept.
        eps_low, eps_high, aggregate, kept_only: as in `sequence_mis`.

    Raises:
        ValueError: an option outside its range.
    """
    return grpo_corrected(
        k3_below(limit, weight=weight),
        eps_low=eps_low,
        eps_high=eps_high,
        aggregate=aggregate,
        kept_only=kept_only,
    )


def veto_rs(
    *,
    minimum: float = 1e-4,
    weight: Correction = unweighted,
    eps_low: float = 0.2,
    eps_high: float = 0.28,
    aggregate: Aggregate = sequence_mean,
    kept_only: bool = False,
) -> Estimator:
    """GRPO against pi_old, a rollout dropped if pi_old all but rules out any one token that mu chose.

    Args:
        minimum: smallest pi_old / mu of a token; 1e-4 in verl.
        weight: *choice*, `unweighted`: of what is kept; `token_truncated(2.0)` adds token-TIS.
        eps_low, eps_high, aggregate, kept_only: as in `sequence_mis`.

    Raises:
        ValueError: an option outside its range.

    References:
        Liu, Li et al., When Speed Kills Stability, 2025. https://richardli.xyz/rl-collapse.
    """
    return grpo_corrected(
        both(veto(minimum), weight),
        eps_low=eps_low,
        eps_high=eps_high,
        aggregate=aggregate,
        kept_only=kept_only,
    )


def mis_po(
    *,
    token: tuple[float, float] = (0.5, 2.0),
    trajectory: tuple[float, float] = (0.996, 1.001),
    lam: float = 1.0,
    critic: CriticRecipe | None = None,
    aggregate: Aggregate = token_mean,
    kept_only: bool = False,
) -> Estimator:
    r"""REINFORCE with a critic on what trainer and engine agree on, token by token and as a whole.

    .. math:: A_t \log\pi(a_t \mid s_t)
        \quad\text{if } \rho_t \in [0.5, 2] \text{ and } \bar\rho \in [0.996, 1.001]

    What survives weighs one: no ratio, no clip. The bar is the geometric mean over the rollout, taken
    before any token is dropped.

    Args:
        token: bounds on a token's ratio.
        trajectory: bounds on the rollout's geometric mean.
        lam: *choice*, 1: lambda of the advantage.
        critic: None is SAO's recipe with three updates to each of the policy's.
        aggregate: *choice*, `token_mean`.
        kept_only: *choice*, False: dropped tokens stay in the divisor.

    Raises:
        ValueError: an option outside its range.

    References:
        StepFun, Step 3.5 Flash, 2026.
    """
    recipe = critic or CriticRecipe(updates_per_policy_update=3)
    return Estimator(
        advantage=partial(
            skip_observation_gae,
            lam=lam,
            gamma=recipe.gamma,
            bootstrap_truncated=recipe.bootstrap_truncated,
        ),
        log_ratio=per_token_old,
        trust=score,
        aggregate=aggregate,
        critic=recipe,
        correction=both(
            token_band(floor=token[0], ceiling=token[1], weight=unweighted),
            geometric_band(floor=trajectory[0], ceiling=trajectory[1]),
        ),
        kept_only=kept_only,
    )
