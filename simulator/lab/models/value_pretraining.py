"""How well does the value network know the starting policy before the policy moves?

Hou et al. call pretraining of the value model essential, and do not say how long it was. Here it is a number
of rollouts of the starting policy, from none on, each seen in one batch.

References:
    Hou et al., SAO, 2026. https://arxiv.org/abs/2607.07508.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Iterable
from typing import TypeVar

import torch
from jaxtyping import Float
from torch import Tensor
from torch.nn import functional

from algorithms.critic import CriticRecipe, freeze, value_loss
from simulator.lab.parts import Critic, Lesson

CriticT = TypeVar("CriticT", bound=Critic)


def pretrained(
    critic: CriticT, lessons: Iterable[Lesson], recipe: CriticRecipe, *, learning_rate: float
) -> CriticT:
    """Fit a critic, in place, to the returns of rollouts; K updates a batch, as during learning.

    *Choices*: the same frozen parts, targets and K as the recipe has for learning; Adam, started afresh.

    Args:
        critic: starts from the policy's starting weights.
        lessons: batches of rollouts, each used once; see `in_batches`.
        recipe: of the critic.
        learning_rate: of the critic itself, not to be multiplied by the recipe's ratio.
    """
    freeze(critic, recipe.frozen)
    trained = [p for _, p in critic.named_parameters() if p.requires_grad]
    optimizer = torch.optim.Adam(trained, lr=learning_rate, fused=True)
    for lesson in lessons:
        targets = None
        for _ in range(recipe.updates_per_policy_update):
            values, after = with_the_value_after(critic, lesson)
            if targets is None:
                known = {"values": values.detach(), "bootstrap_values": after.detach()}
                targets = recipe.targets(dataclasses.replace(lesson.batch, **known))
            fitted = recipe.fitted(lesson.batch)
            optimizer.zero_grad()
            value_loss(values, targets, fitted, fitted.sum()).backward()  # type: ignore[no-untyped-call]
            optimizer.step()
    return critic


def with_the_value_after(critic: Critic, lesson: Lesson) -> tuple[Float[Tensor, "B T"], Float[Tensor, " B"]]:
    """Values of all states, and of the state after the last column: the bootstrap of truncated rollouts.

    A truncated rollout has as many tokens as there can be, so it reaches to the last column.
    """
    values = critic.values(lesson.prompts, functional.pad(lesson.batch.token_ids, (0, 1)))
    return values[:, :-1], values[:, -1]


def in_batches(make: Callable[[int, int], Lesson], rollouts: int, *, batch: int = 128) -> Iterable[Lesson]:
    """Rollouts 0 .. `rollouts` - 1, a batch at a time, the last one perhaps smaller.

    Args:
        make: (first, count) -> rollouts `first` .. `first + count - 1`.
        rollouts: how many in all; none for 0.
        batch: rollouts of one lesson.
    """
    for first in range(0, rollouts, batch):
        yield make(first, min(batch, rollouts - first))
