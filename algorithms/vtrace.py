"""V-trace (IMPALA): values and advantages of the present policy, from rollouts of an older one."""

from __future__ import annotations

import dataclasses
from functools import partial
from typing import NamedTuple

import torch
from jaxtyping import Float, Float64
from torch import Tensor

from algorithms.actions import (
    actions_first,
    by_position,
    discounted_suffix_sums,
    final_values,
    following,
    in_order,
)
from algorithms.aggregate import Aggregate, token_mean
from algorithms.correction import token_truncated
from algorithms.critic import CriticRecipe
from algorithms.estimator import Estimator
from algorithms.ratio import per_token_old
from algorithms.rollout import Batch
from algorithms.trust import score


class Corrected(NamedTuple):
    """What V-trace makes of a rollout, over its action tokens in order, in units of reward."""

    errors: Float64[Tensor, "B T"]
    """v - V: how far the critic was off."""
    advantages: Float64[Tensor, "B T"]


def corrected(
    rewards: Float64[Tensor, "B T"],
    values: Float64[Tensor, "B T"],
    last: Float64[Tensor, "B T"],
    rho: Float64[Tensor, "B T"],
    c: Float64[Tensor, "B T"],
    discount: Float64[Tensor, "B T"],
) -> Corrected:
    r"""The recursion itself, of tokens k in order.

    .. math:: v_k - V_k = \rho_k (r_k + \gamma_k V_{k+1} - V_k) + \gamma_k c_k (v_{k+1} - V_{k+1}), \qquad
        A_k = r_k + \gamma_k v_{k+1} - V_k

    Args:
        rewards, values: of each token.
        last: the value one token later, :math:`V_{k+1}`.
        rho, c: ratios pi_old / mu, truncated; c times gamma at most 1.
        discount: gamma after each token.

    References:
        Espeholt et al., IMPALA, 2018, equation 1 and remark 1. https://arxiv.org/abs/1802.01561.
    """
    errors = discounted_suffix_sums(rho * (rewards + discount * last - values), discount * c)
    later = torch.nn.functional.pad(errors[:, 1:], (0, 1))
    return Corrected(errors, rewards + discount * (last + later) - values)


def vtrace_advantages(
    batch: Batch,
    *,
    rho_bar: float = 1.0,
    c_bar: float = 1.0,
    lam: float = 1.0,
    gamma: float = 1.0,
    bootstrap_truncated: bool = True,
) -> Float[Tensor, "B T"]:
    r"""One reward, the corrected value after it, less the critic's value: :math:`r_k + \gamma v_{k+1} - V_k`.

    Observations are skipped as positions, as in `gae.skip_observation_gae`. The ratio of the action
    itself is not in it: it multiplies the surrogate (`correction.token_truncated`). Below lambda = 1 some
    libraries mix :math:`\lambda v_{k+1} + (1-\lambda) V_{k+1}` here; the paper does not.

    Args:
        batch: reads what GAE reads, `old_log_probs` and `behaviour_log_probs`.
        rho_bar: cap on the ratio of each error, at least `c_bar`: it decides whose values these are, of
            pi_old if it never binds, of mu as it goes to zero.
        c_bar: cap on the ratios that carry a later error back, in (0, 1]. Above one the product over a
            long rollout would have no bound, so more is refused.
        lam: in [0, 1]; multiplies those ratios.
        gamma: discount from one action token to the next, in [0, 1].
        bootstrap_truncated: whether value follows a truncated rollout.

    Returns:
        In units of reward, without gradient, zero off the action tokens.

    Raises:
        ValueError: `values` or `old_log_probs` absent, `bootstrap_values` absent where needed, an option
            outside its range.
    """
    return _corrected(batch, rho_bar, c_bar, lam, gamma, bootstrap_truncated)[1]


def vtrace_targets(
    batch: Batch,
    *,
    rho_bar: float = 1.0,
    c_bar: float = 1.0,
    lam: float = 1.0,
    gamma: float = 1.0,
    bootstrap_truncated: bool = True,
) -> Float[Tensor, "B T"]:
    r"""The values v of the critic's target; on-policy GAE's :math:`A_k(\lambda) + V_k`.

    Args and Raises as `vtrace_advantages`.
    """
    return _corrected(batch, rho_bar, c_bar, lam, gamma, bootstrap_truncated)[0]


def vtrace(
    *,
    rho_bar: float = 1.0,
    c_bar: float = 1.0,
    lam: float = 1.0,
    gamma: float = 1.0,
    critic: CriticRecipe | None = None,
    bootstrap_truncated: bool = True,
    aggregate: Aggregate = token_mean,
) -> Estimator:
    r"""IMPALA's actor-critic: the truncated ratio weighs each token, and the critic learns pi_old's values.

    .. math:: \max\ \min\Bigl(\frac{\pi_{old}}{\mu}, \bar\rho\Bigr)\, (r_t + \gamma v_{t+1} - V_t)
        \log\pi(a_t \mid s_t)

    No clip against pi_old: IMPALA takes one update a batch.

    Args:
        rho_bar, c_bar, lam, gamma: as for `vtrace_advantages`. One cap for the values and for the weight
            of the gradient, as published; a library has two, both 1.
        critic: *choice*, None: SAO's recipe (K, learning rate, frozen parts) with v for a target, so that
            the two differ in what they learn and not in how much. IMPALA's critic shares the policy's
            network, and learns once a batch.
        bootstrap_truncated: *choice*, True: value follows a rollout that a length cap cut.
        aggregate: *choice*, `token_mean`; IMPALA sums over tokens. Its entropy bonus is left out.

    Raises:
        ValueError: an option outside its range.

    References:
        Espeholt et al., IMPALA, 2018. https://arxiv.org/abs/1802.01561.
    """
    _refuse(rho_bar, c_bar, lam, gamma)

    def target(recipe: CriticRecipe, batch: Batch) -> Float[Tensor, "B T"]:
        return vtrace_targets(
            batch,
            rho_bar=rho_bar,
            c_bar=c_bar,
            lam=recipe.lambda_critic,
            gamma=recipe.gamma,
            bootstrap_truncated=recipe.bootstrap_truncated,
        )

    return Estimator(
        advantage=partial(
            vtrace_advantages,
            rho_bar=rho_bar,
            c_bar=c_bar,
            lam=lam,
            gamma=gamma,
            bootstrap_truncated=bootstrap_truncated,
        ),
        log_ratio=per_token_old,
        trust=score,
        aggregate=aggregate,
        correction=token_truncated(rho_bar),
        critic=dataclasses.replace(
            critic or CriticRecipe(),
            lambda_critic=lam,
            gamma=gamma,
            bootstrap_truncated=bootstrap_truncated,
            target=target,
        ),
    )


def _corrected(
    batch: Batch, rho_bar: float, c_bar: float, lam: float, gamma: float, bootstrap_truncated: bool
) -> tuple[Float[Tensor, "B T"], Float[Tensor, "B T"]]:
    """Targets and advantages of each token, at their positions."""
    _refuse(rho_bar, c_bar, lam, gamma)
    if batch.values is None:
        raise ValueError("V-trace needs values, got None: fill them with the critic first")
    mask = batch.action_mask
    order = actions_first(mask)
    rewards, values, rho, c = (
        in_order(tensor, mask, order)
        for tensor in (
            batch.rewards,
            batch.values,
            token_truncated(rho_bar)(batch),
            token_truncated(c_bar)(batch),
        )
    )
    last = following(values, batch, final_values(batch, bootstrap_truncated=bootstrap_truncated))
    errors, advantages = corrected(rewards, values, last, rho, lam * c, torch.full_like(rewards, gamma))
    targets, advantages = (
        by_position(ordered, batch.values, batch, order) for ordered in (values + errors, advantages)
    )
    return targets, advantages


def _refuse(rho_bar: float, c_bar: float, lam: float, gamma: float) -> None:
    if not 0 < c_bar <= 1:
        raise ValueError(f"c_bar must lie in (0, 1], got {c_bar}")
    if not rho_bar >= c_bar:
        raise ValueError(f"rho_bar must be at least c_bar = {c_bar}, got {rho_bar}")
    for name, value in (("lam", lam), ("gamma", gamma)):
        if not 0 <= value <= 1:
            raise ValueError(f"{name} must lie in [0, 1], got {value}")
