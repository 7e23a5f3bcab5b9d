"""The value network at work: K fits to a batch, and the values that enter its advantage."""

from __future__ import annotations

import copy
import dataclasses
import math
from collections.abc import Callable, Iterable
from typing import Any, NamedTuple, final

import torch
from jaxtyping import Float
from torch import Tensor, nn
from torch.nn.functional import pad

from algorithms import diagnostics
from algorithms.critic import CriticRecipe, fit, freeze, value_loss
from algorithms.rollout import Batch
from algorithms.stabilise.reset import emptied
from simulator.lab.parts import Critic, Lesson


class Valued(NamedTuple):
    """A lesson with its values, and what fitting the critic to it showed."""

    lesson: Lesson
    metrics: dict[str, float]


@final
class CriticLearner:
    """A value network, its optimizer and its recipe.

    Args:
        network: starts from the policy's starting weights.
        recipe: K, frozen parts, warm-up, and which values the advantage reads.
        policy_learning_rate: the recipe's ratio multiplies it.
        optimizer: (parameters, learning rate) -> their optimizer.
    """

    def __init__(
        self,
        network: Critic,
        recipe: CriticRecipe,
        *,
        policy_learning_rate: float,
        optimizer: Callable[[Iterable[nn.Parameter], float], torch.optim.Optimizer],
    ) -> None:
        self.network = network
        self.recipe = recipe
        self._policy_learning_rate = policy_learning_rate
        freeze(network, recipe.frozen)
        trained = [p for _, p in network.named_parameters() if p.requires_grad]
        self._trained = trained
        self.optimizer = optimizer(trained, policy_learning_rate)
        self._fits = 0

    def fit(self, lesson: Lesson) -> Valued:
        """K updates toward targets that are fixed before the first of them."""
        batch, width = lesson.batch, lesson.batch.token_ids.shape[1]
        # With its graph, which the first update needs; the second and later ones make their own.
        graphs = [self._values(lesson)]
        before = graphs[0].detach()
        targets = self.recipe.targets(valued(batch, before))
        fitted = self.recipe.fitted(batch)
        total = fitted.sum()
        losses: list[float] = []
        norms: list[float] = []

        def predict() -> Tensor:
            if graphs:
                return before
            with torch.no_grad():
                return self._values(lesson)

        def update() -> None:
            predicted = graphs.pop() if graphs else self._values(lesson)
            loss = value_loss(predicted[:, :width], targets, fitted, total)
            self.optimizer.zero_grad()
            loss.backward()  # type: ignore[no-untyped-call]
            gradients = [p.grad for p in self._trained if p.grad is not None]
            losses.append(loss.item())
            norms.append(torch.nn.utils.get_total_norm(gradients).item())
            # Without a token to fit, moments would move the weights without any gradient.
            if math.isfinite(norms[-1]) and total:
                self.optimizer.step()

        rate = self._policy_learning_rate * self.recipe.learning_rate_factor(self._fits)
        for group in self.optimizer.param_groups:
            group["lr"] = rate
        values = fit(self.recipe, predict, update)
        self._fits += 1
        metrics = seen_by_fit(losses[0], norms[0], before, targets, batch)
        return Valued(Lesson(prompts=lesson.prompts, batch=valued(batch, values)), metrics)

    def _values(self, lesson: Lesson) -> Float[Tensor, "B n"]:
        """Of every token; and of the state after the last one, if a rollout was cut there."""
        tokens = lesson.batch.token_ids
        if lesson.batch.truncated.any():
            tokens = pad(tokens, (0, 1))
        return self.network.values(lesson.prompts, tokens)

    def begin_anew(self) -> None:
        """Keep the weights; forget the optimizer's moments and how often they were fitted."""
        self.optimizer.load_state_dict(emptied(self.optimizer.state_dict()))
        self._fits = 0

    def state(self) -> dict[str, Any]:
        """For a checkpoint."""
        weights = {name: p.detach().clone() for name, p in self.network.named_parameters()}
        return {
            "weights": weights,
            "optimizer": copy.deepcopy(self.optimizer.state_dict()),
            "fits": self._fits,
        }

    def load_state(self, state: dict[str, Any]) -> None:
        with torch.no_grad():
            for name, parameter in self.network.named_parameters():
                parameter.copy_(state["weights"][name])
        self.optimizer.load_state_dict(state["optimizer"])
        self._fits = state["fits"]


def valued(batch: Batch, values: Float[Tensor, "B n"]) -> Batch:
    """The batch with its values; a column more than it has tokens holds those of the states after them.

    A truncated rollout fills the width of its batch, so its last state is there.
    """
    width = batch.token_ids.shape[1]
    after = values[:, width] if values.shape[1] > width else None
    return dataclasses.replace(batch, values=values[:, :width], bootstrap_values=after)


def seen_by_fit(
    loss: float,
    gradient_norm: float,
    before: Float[Tensor, "B n"],
    targets: Float[Tensor, "B T"],
    batch: Batch,
) -> dict[str, float]:
    """What the first of the K fits showed, and how much the values from before it explained."""
    values = before[:, : targets.shape[1]]
    return {
        "critic_loss": loss,
        "critic_gradient_norm": gradient_norm,
        "explained_variance": diagnostics.explained_variance(values, targets, batch.action_mask),
    }
