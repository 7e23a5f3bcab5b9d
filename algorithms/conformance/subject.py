"""What can the laws be tried on? An `Estimator`, or a plain loss function that is made to look like one."""

from __future__ import annotations

import inspect
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Final, TypeAlias, final

from jaxtyping import Float, Int
from torch import Tensor

from algorithms.estimator import Estimator
from algorithms.rollout import Batch

LOSS_ARGUMENTS: Final = ("log_probs", "old_log_probs", "advantages", "mask")
"""Names that a plain loss function's arguments must have: trainers disagree on their order."""


@final
@dataclass(frozen=True, slots=True, kw_only=True)
class PlainLoss:
    """A function of tensors `[B, T]` that returns a scalar to be minimised.

    Its advantages are each rollout's return, its old policy is the one that sampled. If it takes a
    `total`, it is given the action tokens of the *whole* batch; without one it can add up over shards
    only if it is a sum.
    """

    function: Callable[..., Tensor]
    takes_total: bool

    def advantage(self, batch: Batch) -> Float[Tensor, "B T"]:
        """Each rollout's return; off the action tokens whatever the batch holds there."""
        per_token = batch.returns[:, None].expand_as(batch.rewards)
        return per_token.where(batch.action_mask, batch.rewards)

    def fixed(
        self,
        log_probs: Float[Tensor, "B T"],  # noqa: ARG002
        batch: Batch,  # noqa: ARG002
        advantages: Float[Tensor, "B T"],  # noqa: ARG002
    ) -> PlainLoss:
        """Itself: nothing that it is told depends on the rest of the batch."""
        return self

    def total(self, batch: Batch, log_probs: Float[Tensor, "B T"] | None = None) -> Int[Tensor, ""]:  # noqa: ARG002
        """Action tokens."""
        return batch.action_mask.sum()

    def loss(
        self,
        log_probs: Float[Tensor, "B T"],
        batch: Batch,
        *,
        advantages: Float[Tensor, "B T"],
        total: Int[Tensor, ""],
    ) -> Tensor:
        """What the function says of these rollouts."""
        given: dict[str, Tensor] = {"total": total} if self.takes_total else {}
        return self.function(
            log_probs=log_probs,
            old_log_probs=batch.behaviour_log_probs,
            advantages=advantages,
            mask=batch.action_mask,
            **given,
        )


Subject: TypeAlias = Estimator | PlainLoss


def as_subject(thing: Any) -> Subject:
    """An estimator as it is, a loss function wrapped.

    Raises:
        ValueError: it is neither; says which arguments a loss function takes.
    """
    if isinstance(thing, Estimator | PlainLoss):
        return thing
    if not callable(thing):
        raise ValueError(f"needs an Estimator or a loss function, got {_kind(thing)}")
    wanted = f"a loss function takes ({', '.join(LOSS_ARGUMENTS)}), by these names, and perhaps total"
    try:
        parameters = inspect.signature(thing).parameters
    except (TypeError, ValueError):
        raise ValueError(f"the arguments of {_kind(thing)} cannot be read; {wanted}") from None
    named = {
        name
        for name, p in parameters.items()
        if p.kind in (inspect.Parameter.POSITIONAL_OR_KEYWORD, inspect.Parameter.KEYWORD_ONLY)
    }
    required = {name for name, p in parameters.items() if p.default is p.empty and _is_single(p)}
    if not set(LOSS_ARGUMENTS) <= named or not required <= {*LOSS_ARGUMENTS, "total"}:
        raise ValueError(f"its arguments are ({', '.join(parameters)}); {wanted}")
    return PlainLoss(function=thing, takes_total="total" in named)


def needs_arguments(thing: Callable[..., Any]) -> bool:
    """Can it be called only with arguments?"""
    try:
        parameters = inspect.signature(thing).parameters.values()
    except (TypeError, ValueError):
        return True
    return any(p.default is p.empty and _is_single(p) for p in parameters)


def _is_single(parameter: inspect.Parameter) -> bool:
    return parameter.kind not in (inspect.Parameter.VAR_POSITIONAL, inspect.Parameter.VAR_KEYWORD)


def _kind(thing: Any) -> str:
    name = type(thing).__name__
    return f"{'an' if name[0].lower() in 'aeiou' else 'a'} {name}"
