"""Steps instead of tokens: what if credit went to a turn, and not to each of its tokens?

A step is a maximal run of action tokens between observations. Values and rewards of its tokens become
one value and one reward, GAE runs over the steps, and each token gets its step's advantage. Step s of a
rollout sits in column s of every table of steps.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable
from typing import TypeAlias

import torch
from jaxtyping import Bool, Float, Float64, Int
from torch import Tensor

from algorithms.critic import CriticRecipe, ValueTarget
from algorithms.gae import LambdaRule, skip_observation_gae
from algorithms.precision import working
from algorithms.rollout import Batch

StepValue: TypeAlias = Callable[[Float[Tensor, "B T"], Bool[Tensor, "B T"]], Float64[Tensor, "B T"]]
"""(values of tokens, action mask) -> value of each step, zero after the last."""


def step_of(mask: Bool[Tensor, "B T"]) -> Int[Tensor, "B T"]:
    """Step of each action token, counted from 0; 0 off the action tokens."""
    before = torch.nn.functional.pad(mask[:, :-1], (1, 0))
    return ((mask & ~before).cumsum(-1) - 1).where(mask, 0)


def step_ends(mask: Bool[Tensor, "B T"]) -> Bool[Tensor, "B T"]:
    """Last token of each step."""
    after = torch.nn.functional.pad(mask[:, 1:], (0, 1))
    return mask & ~after


def step_sums(terms: Float[Tensor, "B T"], mask: Bool[Tensor, "B T"]) -> Float64[Tensor, "B T"]:
    """Sum over each step's tokens: of rewards, the step's own."""
    kept = terms.detach().where(mask, 0.0).double()
    return torch.zeros_like(kept).scatter_add(1, step_of(mask), kept)


def mean_value(values: Float[Tensor, "B T"], mask: Bool[Tensor, "B T"]) -> Float64[Tensor, "B T"]:
    """The mean of the step's token values."""
    tokens = step_sums(torch.ones_like(values), mask)
    return step_sums(values, mask) / tokens.clamp(min=1.0)


def last_value(values: Float[Tensor, "B T"], mask: Bool[Tensor, "B T"]) -> Float64[Tensor, "B T"]:
    """The value of the step's last token: it has read all of the step but that token."""
    return step_sums(values.where(step_ends(mask), 0.0), mask)


def step_gae(
    batch: Batch,
    *,
    value: StepValue,
    gamma: float = 1.0,
    lam: float | LambdaRule = 1.0,
    bootstrap_truncated: bool = True,
) -> Float[Tensor, "B T"]:
    r"""Advantage of each step, copied to its tokens.

    .. math:: \delta_s = r_s + \gamma V_{s+1} - V_s, \qquad A_s = \delta_s + \gamma\lambda A_{s+1}

    With one-token steps this is `gae.skip_observation_gae`, whichever value is taken.

    Args:
        batch: as for `skip_observation_gae`.
        value: `mean_value` or `last_value`.
        gamma: discount from one step to the next, in [0, 1].
        lam: in [0, 1], or a rule, which is given the *steps* of each rollout.
        bootstrap_truncated: whether value follows a truncated rollout.

    Returns:
        In units of reward, without gradient, zero off the action tokens.

    Raises:
        ValueError: as `skip_observation_gae`.
    """
    by_step = _one_token_a_step(batch, value)
    advantages = skip_observation_gae(by_step, gamma=gamma, lam=lam, bootstrap_truncated=bootstrap_truncated)
    return _to_tokens(advantages, batch)


def step_targets(value: StepValue) -> ValueTarget:
    r"""What a step's value should have been, :math:`A_s(\lambda_{critic}) + V_s`, copied to its tokens.

    *Choice*: each token that is fitted is fitted to it. (The mean of the values could be, too.)
    """

    def target(recipe: CriticRecipe, batch: Batch) -> Float[Tensor, "B T"]:
        by_step = _one_token_a_step(batch, value)
        advantages = skip_observation_gae(
            by_step,
            gamma=recipe.gamma,
            lam=recipe.lambda_critic,
            bootstrap_truncated=recipe.bootstrap_truncated,
        )
        assert by_step.values is not None  # _one_token_a_step has filled it
        return _to_tokens(advantages + by_step.values, batch)

    return target


def step_ends_of(batch: Batch) -> Bool[Tensor, "B T"]:
    """Last token of each step, for `CriticRecipe.fitted`."""
    return step_ends(batch.action_mask)


def _one_token_a_step(batch: Batch, value: StepValue) -> Batch:
    """The batch as if each step were one action token, so that GAE over tokens is GAE over steps."""
    if batch.values is None:
        raise ValueError("step advantages need values, got None: fill them with the critic first")
    mask = batch.action_mask
    steps = step_ends(mask).sum(-1, keepdim=True)
    return dataclasses.replace(
        batch,
        action_mask=torch.arange(mask.shape[1], device=mask.device) < steps,
        values=value(batch.values, mask),
        rewards=step_sums(batch.rewards, mask),
    )


def _to_tokens(by_step: Float64[Tensor, "B T"], batch: Batch) -> Float[Tensor, "B T"]:
    assert batch.values is not None  # by_step was made of them
    copied = by_step.gather(1, step_of(batch.action_mask))
    return copied.to(working(batch.values.dtype)).where(batch.action_mask, 0.0)
