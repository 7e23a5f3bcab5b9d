"""Generalised advantage estimation over the tokens that the model chose.

Observations are skipped as positions: neither their values nor an extra factor of gamma lambda reaches
an action. They stay in the prefix, so the critic has read them when it values the next action. (verl skips
them too; SkyRL steps through them.)
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import TypeAlias

import torch
from jaxtyping import Float, Float64, Int
from torch import Tensor

from algorithms.actions import (
    actions_first,
    by_position,
    discounted_suffix_sums,
    final_values,
    following,
    in_order,
)
from algorithms.piece import piece
from algorithms.rollout import Batch

LambdaRule: TypeAlias = Callable[[Int[Tensor, " B"]], Float64[Tensor, " B"]]
"""Action tokens of each rollout -> its lambda."""


@piece
def length_adaptive(alpha: float) -> LambdaRule:
    r"""A lambda that forgets over a fixed share of the rollout, however long.

    .. math:: \lambda_i = 1 - \frac{1}{\alpha\, l_i}, \qquad \lambda^{l} \to e^{-1/\alpha}

    Args:
        alpha: 1.5 in SAO, 0.05 in VAPO, where it is meant for long responses only.

    Raises:
        ValueError: `alpha` is not positive; or, on use, a rollout so short that lambda would be
            negative. It is refused and not clamped: a clamp would silently turn a constant copied
            from another recipe into one-step advantages.

    Note:
        l counts action tokens. Whether observations count, the paper does not say.

    References:
        Hou et al., SAO, 2026, equation 5. https://arxiv.org/abs/2607.07508.
        Yue et al., VAPO, 2025. https://arxiv.org/abs/2504.05118.
    """
    if not (math.isfinite(alpha) and alpha > 0):
        raise ValueError(f"alpha must be positive and finite, got {alpha}")

    def rule(action_tokens: Int[Tensor, " B"]) -> Float64[Tensor, " B"]:
        # A row without actions belongs to no rollout; any lambda does.
        length = action_tokens.double().where(action_tokens > 0, math.inf)
        shortest = length.min().item() if len(length) else math.inf
        if alpha * shortest < 1:
            raise ValueError(
                f"alpha = {alpha} makes lambda = {1 - 1 / (alpha * shortest):g} for a rollout of "
                f"{shortest:g} action tokens; it needs alpha * tokens >= 1"
            )
        return 1.0 - 1.0 / (alpha * length)

    return rule


def skip_observation_gae(
    batch: Batch, *, gamma: float = 1.0, lam: float | LambdaRule = 1.0, bootstrap_truncated: bool = True
) -> Float[Tensor, "B T"]:
    r"""Advantage of each action token, over the subsequence k = 1..L of action tokens.

    .. math:: \delta_k = r_k + \gamma V_{k+1} - V_k, \qquad A_k = \delta_k + \gamma\lambda A_{k+1}

    V after the last action is zero if the rollout terminated, and the bootstrap value if it was
    truncated. (The paper does not say; `bootstrap_truncated=False` treats both alike.)

    Args:
        batch: reads `rewards`, `values`, `action_mask`, `truncated`, `bootstrap_values`.
        gamma: discount from one action token to the next, in [0, 1].
        lam: in [0, 1], or a rule that gives each rollout its own.
        bootstrap_truncated: whether value follows a truncated rollout.

    Returns:
        Advantages in units of reward, without gradient, zero off the action tokens.

    Raises:
        ValueError: `values` absent, `bootstrap_values` absent where needed, `gamma` or `lam` outside
            [0, 1].

    References:
        Schulman et al., GAE, 2015. https://arxiv.org/abs/1506.02438.
        Hou et al., SAO, 2026, equations 4 and 5. https://arxiv.org/abs/2607.07508.
    """
    if batch.values is None:
        raise ValueError("skip_observation_gae needs values, got None: fill them with the critic first")
    decay = _discount(gamma, lam, batch)
    mask = batch.action_mask
    order = actions_first(mask)
    values, rewards = (in_order(tensor, mask, order) for tensor in (batch.values, batch.rewards))
    last = final_values(batch, bootstrap_truncated=bootstrap_truncated)
    delta = rewards + gamma * following(values, batch, last) - values
    advantages = discounted_suffix_sums(delta, decay.expand_as(delta))
    return by_position(advantages, batch.values, batch, order)


def value_targets(
    batch: Batch, *, gamma: float = 1.0, lam_critic: float = 1.0, bootstrap_truncated: bool = True
) -> Float[Tensor, "B T"]:
    r"""What the critic should have said: :math:`A_k(\lambda_{critic}) + V_k`; zero off the action tokens.

    At lambda = 1 this is the return still to come, whatever the critic said.

    Raises:
        ValueError: as `skip_observation_gae`.
    """
    advantages = skip_observation_gae(
        batch, gamma=gamma, lam=lam_critic, bootstrap_truncated=bootstrap_truncated
    )
    assert batch.values is not None  # skip_observation_gae has refused it
    return (advantages + batch.values.detach()).where(batch.action_mask, 0.0)


def _discount(gamma: float, lam: float | LambdaRule, batch: Batch) -> Float64[Tensor, "B 1"]:
    """gamma lambda of each row. Kept [B, 1]: a [B] would broadcast along the wrong axis when B = T."""
    if not 0 <= gamma <= 1:
        raise ValueError(f"gamma must lie in [0, 1], got {gamma}")
    if callable(lam):
        return gamma * lam(batch.action_tokens)[:, None]
    if not 0 <= lam <= 1:
        raise ValueError(f"lam must lie in [0, 1], got {lam}")
    return torch.full_like(batch.action_tokens, 0, dtype=torch.float64)[:, None] + gamma * lam
