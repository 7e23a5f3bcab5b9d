"""The value network at work: K fits to a batch, and the values that enter its advantage."""

from __future__ import annotations

import copy
import dataclasses
import math
from collections.abc import Callable, Iterable
from typing import Any, NamedTuple, final

import torch
from torch import nn

from algorithms import diagnostics
from algorithms.critic import CriticRecipe, fit, freeze, value_loss
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
        prompts, batch = lesson.prompts, lesson.batch
        # With its graph, which the first update needs; the second and later ones make their own.
        graphs = [self.network.values(prompts, batch.token_ids)]
        before = graphs[0].detach()
        targets = self.recipe.targets(dataclasses.replace(batch, values=before))
        fitted = self.recipe.fitted(batch)
        total = fitted.sum()
        losses: list[float] = []
        norms: list[float] = []

        def predict() -> torch.Tensor:
            if graphs:
                return before
            with torch.no_grad():
                return self.network.values(prompts, batch.token_ids)

        def update() -> None:
            predicted = graphs.pop() if graphs else self.network.values(prompts, batch.token_ids)
            loss = value_loss(predicted, targets, fitted, total)
            self.optimizer.zero_grad()
            loss.backward()  # type: ignore[no-untyped-call]
            gradients = [p.grad for p in self._trained if p.grad is not None]
            losses.append(loss.item())
            norms.append(torch.nn.utils.get_total_norm(gradients).item())
            if math.isfinite(norms[-1]):
                self.optimizer.step()

        rate = self._policy_learning_rate * self.recipe.learning_rate_factor(self._fits)
        for group in self.optimizer.param_groups:
            group["lr"] = rate
        values = fit(self.recipe, predict, update)
        self._fits += 1
        metrics = {
            "critic_loss": losses[0],
            "critic_gradient_norm": norms[0],
            "explained_variance": diagnostics.explained_variance(before, targets, batch.action_mask),
        }
        return Valued(Lesson(prompts=prompts, batch=dataclasses.replace(batch, values=values)), metrics)

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
