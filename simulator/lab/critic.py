"""The value network at work: K fits to a batch, and the values that enter its advantage."""

from __future__ import annotations

import dataclasses
import math
from typing import NamedTuple, final

import torch

from algorithms import diagnostics
from algorithms.critic import CriticRecipe, fit, freeze, value_loss
from algorithms.rollout import Batch
from simulator.lab.modular_addition import Questions
from simulator.lab.networks import TokenCritic


class Valued(NamedTuple):
    """A batch with its values, and what fitting the critic to it showed."""

    batch: Batch
    metrics: dict[str, float]


@final
class CriticLearner:
    """A value network, its optimizer and its recipe.

    Args:
        network: starts from the policy's starting weights.
        recipe: K, frozen parts, warm-up, and which values the advantage reads.
        policy_learning_rate: the recipe's ratio multiplies it.
    """

    def __init__(self, network: TokenCritic, recipe: CriticRecipe, *, policy_learning_rate: float) -> None:
        self.network = network
        self.recipe = recipe
        self._policy_learning_rate = policy_learning_rate
        freeze(network, recipe.frozen)
        trained = [p for p in network.parameters() if p.requires_grad]
        self.optimizer = torch.optim.Adam(trained, lr=policy_learning_rate, fused=True)
        self._fits = 0

    def fit(self, questions: Questions, batch: Batch) -> Valued:
        """K updates toward targets that are fixed before the first of them."""
        with torch.no_grad():
            before = self.network(questions, batch.token_ids)
        targets = self.recipe.targets(dataclasses.replace(batch, values=before))
        fitted = self.recipe.fitted(batch)
        total = fitted.sum()
        losses: list[float] = []
        norms: list[float] = []

        def predict() -> torch.Tensor:
            values: torch.Tensor = self.network(questions, batch.token_ids)
            return values

        def update() -> None:
            loss = value_loss(predict(), targets, fitted, total)
            self.optimizer.zero_grad()
            loss.backward()  # type: ignore[no-untyped-call]
            gradients = [p.grad for p in self.network.parameters() if p.grad is not None]
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
        return Valued(dataclasses.replace(batch, values=values), metrics)
