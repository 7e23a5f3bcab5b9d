"""The critic's recipe: how often, how fast and in which parts does the value model learn?

Nothing here owns a model or an optimizer. A learner reads the recipe, the same in a simulation and
on many GPUs.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Literal, Protocol, TypeAlias, final, get_args, runtime_checkable

from jaxtyping import Bool, Float, Int
from torch import Tensor, nn

from algorithms.gae import value_targets
from algorithms.rollout import Batch

_ATTENTION = re.compile(r"(^|[._])(attn|attention)(\.|$)")

ValueWhen = Literal["before", "after"]

ValueTarget: TypeAlias = Callable[["CriticRecipe", Batch], Float[Tensor, "B T"]]
"""(recipe, batch) -> what `Batch.values` should have been, in units of reward."""


def attention_modules(parameter: str) -> bool:
    """Does this parameter live inside an attention module?

    `layers.0.self_attn.q_proj.weight` does. The norms beside it (`post_attention_layernorm`,
    `attention_norm`) do not: they train.
    """
    return _ATTENTION.search(parameter) is not None


def nothing(parameter: str) -> bool:  # noqa: ARG001
    """No parameter at all: the full-parameter critic of the ablation."""
    return False


def lambda_returns(recipe: CriticRecipe, batch: Batch) -> Float[Tensor, "B T"]:
    """Advantage plus value at the recipe's lambda and gamma: see `gae.value_targets`."""
    return value_targets(
        batch,
        gamma=recipe.gamma,
        lam_critic=recipe.lambda_critic,
        bootstrap_truncated=recipe.bootstrap_truncated,
    )


def every_action(batch: Batch) -> Bool[Tensor, "B T"]:
    """All tokens that the model chose."""
    return batch.action_mask


@final
@dataclass(frozen=True, slots=True, kw_only=True)
class CriticRecipe:
    """SAO's value model. Fields marked *choice* are not settled by the paper.

    Raises:
        ValueError: a count below its minimum, a rate or discount outside its range.

    References:
        Hou et al., SAO, 2026. https://arxiv.org/abs/2607.07508.
    """

    updates_per_policy_update: int = 2
    """K critic updates on the batch of each policy update."""
    learning_rate_ratio: float = 5.0
    """Critic's learning rate over the policy's: 5e-6 over 1e-6."""
    frozen: Callable[[str], bool] = attention_modules
    """Parameters, by name, that do not train: full attention dominates the critic's gradient norm."""
    critic_only_updates: int = 10
    """*Choice*: first updates in which the policy rests. The paper's "10-step warm-up" may mean this,
    or `learning_rate_warmup_updates`."""
    learning_rate_warmup_updates: int = 0
    """*Choice*: first updates over which the critic's learning rate rises linearly; 0 for none."""
    value_when: ValueWhen = "before"
    """*Choice*: the values that enter the advantage come from before or after the K updates. Fitted
    on the same single rollouts first, the critic shrinks the advantage toward zero."""
    lambda_critic: float = 1.0
    gamma: float = 1.0
    bootstrap_truncated: bool = True
    """*Choice*: whether value follows a truncated rollout."""
    target: ValueTarget = lambda_returns
    """What the value of each token is fitted to."""
    fitted: Callable[[Batch], Bool[Tensor, "B T"]] = every_action
    """Tokens that the value loss sums over."""

    def __post_init__(self) -> None:
        if self.updates_per_policy_update < 1:
            raise ValueError(f"updates_per_policy_update must be >= 1, got {self.updates_per_policy_update}")
        if not self.learning_rate_ratio > 0:
            raise ValueError(f"learning_rate_ratio must be positive, got {self.learning_rate_ratio}")
        for name in ("critic_only_updates", "learning_rate_warmup_updates"):
            if getattr(self, name) < 0:
                raise ValueError(f"{name} must be >= 0, got {getattr(self, name)}")
        for name in ("lambda_critic", "gamma"):
            if not 0 <= getattr(self, name) <= 1:
                raise ValueError(f"{name} must lie in [0, 1], got {getattr(self, name)}")
        if self.value_when not in get_args(ValueWhen):
            raise ValueError(f"value_when must be one of {get_args(ValueWhen)}, got {self.value_when!r}")

    def policy_trains(self, update: int) -> bool:
        """Does the policy train at this update, counted from 0?"""
        return update >= self.critic_only_updates

    def learning_rate_factor(self, update: int) -> float:
        """Critic's learning rate at this update (from 0) over the policy's."""
        if update >= self.learning_rate_warmup_updates:
            return self.learning_rate_ratio
        return self.learning_rate_ratio * (update + 1) / self.learning_rate_warmup_updates

    def targets(self, batch: Batch) -> Float[Tensor, "B T"]:
        """What `Batch.values` should have been, zero off the action tokens."""
        return self.target(self, batch)


def fit(
    recipe: CriticRecipe,
    predict: Callable[[], Float[Tensor, "B T"]],
    update: Callable[[], None],
) -> Float[Tensor, "B T"]:
    """Update the critic exactly K times and return the values that enter the advantage.

    Args:
        predict: values of the batch under the critic as it is now, in units of reward.
        update: one critic update on the batch, toward targets fixed before the first.
    """
    before = predict().detach()
    for _ in range(recipe.updates_per_policy_update):
        update()
    return before if recipe.value_when == "before" else predict().detach()


@runtime_checkable
class Parametrised(Protocol):
    """A module, or what stands for one."""

    def named_parameters(self) -> Iterator[tuple[str, nn.Parameter]]: ...


def freeze(module: Parametrised, predicate: Callable[[str], bool]) -> tuple[str, ...]:
    """Stop training the parameters that `predicate` names, and return their names.

    Raises:
        ValueError: nothing would be left to train.
    """
    named = dict(module.named_parameters())
    frozen = tuple(name for name in named if predicate(name))
    if len(frozen) == len(named):
        raise ValueError(f"frozen covers all {len(named)} parameters of the critic: nothing would train")
    for name in frozen:
        named[name].requires_grad_(False)
    return frozen


def value_loss(
    values: Float[Tensor, "B T"],
    targets: Float[Tensor, "B T"],
    mask: Bool[Tensor, "B T"],
    total: Int[Tensor, ""],
) -> Float[Tensor, ""]:
    r"""Squared error, unclipped and without a factor one half.

    .. math:: \frac{1}{N} \sum_{t} (V(s_t) - G_t)^2

    Args:
        values: the critic's, carrying its gradient; NaN off the mask changes nothing.
        targets: in units of reward; no gradient flows into them.
        total: N, `aggregate.count_tokens` of the *whole* batch, so that shards add up.

    Raises:
        ValueError: shapes differ (a broadcast would average over the wrong pairs).
    """
    if not values.shape == targets.shape == mask.shape:
        shapes = [tuple(tensor.shape) for tensor in (values, targets, mask)]
        raise ValueError(f"values, targets and mask must share a shape, got {shapes}")
    error = values.where(mask, 0.0) - targets.detach().where(mask, 0.0)
    return error.square().sum() / total.clamp(min=1)
