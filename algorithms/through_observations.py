"""What if advantage estimation stepped through observations, too? The ablation of skipping them.

Some public trainers take every token of a response for a step. A value of an observation then enters the
advantages of the actions before it, and lambda is taken to the power of positions rather than of actions.
"""

from __future__ import annotations

import dataclasses

from jaxtyping import Float
from torch import Tensor

from algorithms.gae import LambdaRule, skip_observation_gae
from algorithms.rollout import Batch


def step_through_observation_gae(
    batch: Batch, *, gamma: float = 1.0, lam: float | LambdaRule = 1.0, bootstrap_truncated: bool = True
) -> Float[Tensor, "B T"]:
    r"""Advantage of each action token, over all tokens t up to the last action, observations among them.

    .. math:: \delta_t = r_t + \gamma V_{t+1} - V_t, \qquad A_t = \delta_t + \gamma\lambda A_{t+1}

    Equal to `skip_observation_gae` where no action follows an observation.

    Args:
        batch: as there; `values` must hold those of observations.
        gamma: discount from one *token* to the next, in [0, 1].
        lam: in [0, 1], or a rule, which is given the action tokens of each rollout, as there: the two differ
            in nothing but what a step is.
        bootstrap_truncated: whether value follows a truncated rollout. *Choice*: observations after the last
            action, which only a cut leaves, are no steps.

    Returns:
        In units of reward, without gradient, zero off the action tokens.

    Raises:
        ValueError: as `skip_observation_gae`.
    """
    actions = batch.action_mask
    stepped = actions.flip(-1).cumsum(-1).flip(-1) > 0
    every = dataclasses.replace(batch, action_mask=stepped, rewards=batch.rewards.where(actions, 0.0))
    rate = lam(batch.action_tokens) if callable(lam) else None
    advantages = skip_observation_gae(
        every,
        gamma=gamma,
        lam=lam if rate is None else lambda _: rate,
        bootstrap_truncated=bootstrap_truncated,
    )
    return advantages.where(actions, 0.0)
