"""SAO with one part exchanged, as in its paper's ablations: credit by step, and a plain critic."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable
from functools import partial

from jaxtyping import Bool, Float
from torch import Tensor

from algorithms.critic import CriticRecipe, every_action, nothing
from algorithms.estimator import Estimator
from algorithms.gae import length_adaptive
from algorithms.rollout import Batch
from algorithms.sao import sao
from algorithms.steps import StepValue, last_value, mean_value, step_ends_of, step_gae, step_targets


def sao_step_mean(
    *, eps_low: float = 0.3, eps_high: float = 5.0, alpha: float = 1.5, gamma: float = 1.0
) -> Estimator:
    r"""SAO by step: a step is worth the mean of its token values, and its tokens share its advantage.

    .. math:: \lambda = 1 - \frac{1}{\alpha \cdot \mathrm{steps}}

    Worse than SAO by token in its paper. Everything else is `sao`'s.

    Args:
        eps_low, eps_high: half-widths of the open band.
        alpha: share of the rollout's steps over which lambda forgets.
        gamma: *choice*, 1: discount from one *step* to the next.

    Raises:
        ValueError: an option outside its range.

    References:
        Hou, Li, Tang, Dong, SAO, 2026, appendix. https://arxiv.org/abs/2607.07508.
    """
    return _by_step(mean_value, every_action, eps_low, eps_high, alpha, gamma)


def sao_step_last(
    *, eps_low: float = 0.3, eps_high: float = 5.0, alpha: float = 1.5, gamma: float = 1.0
) -> Estimator:
    """SAO by step: a step is worth its last token's value, the only one that the critic learns.

    Args:
        eps_low, eps_high, alpha, gamma: as for `sao_step_mean`.

    Raises:
        ValueError: an option outside its range.

    References:
        Hou, Li, Tang, Dong, SAO, 2026, appendix. https://arxiv.org/abs/2607.07508.
    """
    return _by_step(last_value, step_ends_of, eps_low, eps_high, alpha, gamma)


def sao_dis_only(*, eps_low: float = 0.3, eps_high: float = 5.0, alpha: float = 1.5) -> Estimator:
    """SAO's mask with a plain critic: trained once an update, in all its parts.

    The paper has an arm "SAO, DIS only" between GRPO + DIS and SAO, and does not say what it leaves out.
    *Choice*: what SAO adds to the training of its critic, two updates a batch and frozen attention; the
    advantage is SAO's. So it differs from `sao` in what the critic says, and not in what is made of it.

    Args:
        eps_low, eps_high: half-widths of the open band.
        alpha: share of the rollout over which lambda forgets.

    Raises:
        ValueError: an option outside its range.

    References:
        Hou, Li, Tang, Dong, SAO, 2026. https://arxiv.org/abs/2607.07508.
    """
    plain = CriticRecipe(updates_per_policy_update=1, frozen=nothing)
    return sao(eps_low=eps_low, eps_high=eps_high, alpha=alpha, critic=plain)


def _by_step(
    value: StepValue,
    fitted: Callable[[Batch], Bool[Tensor, "B T"]],
    eps_low: float,
    eps_high: float,
    alpha: float,
    gamma: float,
) -> Estimator:
    recipe = CriticRecipe(target=step_targets(value), fitted=fitted)
    advantage: Callable[[Batch], Float[Tensor, "B T"]] = partial(
        step_gae, value=value, gamma=gamma, lam=length_adaptive(alpha)
    )
    by_token = sao(eps_low=eps_low, eps_high=eps_high, alpha=alpha, gamma=gamma, critic=recipe)
    return dataclasses.replace(by_token, advantage=advantage)
