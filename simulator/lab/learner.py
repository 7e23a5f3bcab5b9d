"""One optimizer update: the three lines that every learner here and at full scale runs.

    advantages = estimator.advantage(batch)
    total = estimator.aggregate.count(batch.action_mask)
    estimator.loss(log_probs, batch, advantages=advantages, total=total).backward()

Around them: the critic's K fits on the same batch, the refusal of non-finite gradients, and what the
update saw.
"""

from __future__ import annotations

import dataclasses
import math
from typing import final

import torch
from jaxtyping import Float
from torch import Tensor, nn

from algorithms import diagnostics
from algorithms.critic import CriticRecipe, value_loss
from algorithms.estimator import Estimator
from algorithms.gae import value_targets
from algorithms.rollout import Batch
from simulator.lab.modular_addition import Questions, every_question
from simulator.lab.networks import PolicyWeights, TokenCritic, TokenPolicy, answer_log_probs


@final
class Learner:
    """A policy, its optimizer, and a critic if the estimator asks for one.

    Args:
        estimator: what is learned from; its critic recipe decides whether there is a critic.
        modulus: of the world.
        hidden: width of both networks.
        learning_rate: Adam's, for the policy; the critic's is the recipe's multiple of it.
        seed: of the starting weights, equal for all arms.
    """

    def __init__(
        self, estimator: Estimator, *, modulus: int, hidden: int, learning_rate: float, seed: int
    ) -> None:
        generator = torch.Generator().manual_seed(seed)
        self.estimator = estimator
        self.policy = TokenPolicy(modulus=modulus, hidden=hidden, generator=generator)
        self._optimizer = torch.optim.Adam(self.policy.parameters(), lr=learning_rate, fused=True)
        self._everything = every_question(modulus)
        self._critic: Critic | None = None
        if estimator.critic is not None:
            network = TokenCritic(self.policy, generator=generator)
            rate = learning_rate * estimator.critic.learning_rate_ratio
            self._critic = Critic(network, estimator.critic, learning_rate=rate)
        self._updates = 0

    def log_probs(self, questions: Questions, batch: Batch) -> Float[Tensor, "B T"]:
        """log pi of the batch's answers under the weights being trained, in nats."""
        return _chosen(answer_log_probs(self.policy.weights(), questions), batch)

    def update(self, questions: Questions, batch: Batch, old: PolicyWeights) -> dict[str, float]:
        """Train on one update's rollouts and say what happened.

        Args:
            questions: the prompts of `batch`.
            batch: whole groups; its behaviour log-probs and versions are the sampler's.
            old: the trainer's weights when it took the batch that this update belongs to (pi_old).
        """
        with torch.no_grad():
            old_log_probs = _chosen(answer_log_probs(old, questions), batch)
        batch = dataclasses.replace(batch, old_log_probs=old_log_probs)
        metrics: dict[str, float] = {"reward": batch.returns.mean().item()}
        critic_only = False
        if self._critic is not None:
            batch, seen = self._critic.fit(questions, batch)
            metrics |= seen
            critic_only = self._updates < self._critic.recipe.critic_only_updates
        advantages = self.estimator.advantage(batch)
        total = self.estimator.aggregate.count(batch.action_mask)
        log_probs = self.log_probs(questions, batch)
        log_probs.retain_grad()
        loss = self.estimator.loss(log_probs, batch, advantages=advantages, total=total)
        self._optimizer.zero_grad()
        loss.backward()  # type: ignore[no-untyped-call]
        norm = _norm(self.policy)
        refused = not (math.isfinite(norm) and math.isfinite(loss.item()))
        if not refused and not critic_only:
            self._optimizer.step()
        self._updates += 1
        metrics |= self._seen(log_probs, batch, advantages)
        return metrics | {
            "loss": loss.item(),
            "gradient_norm": norm,
            "refused": float(refused),
            "critic_only": float(critic_only),
            "accuracy": self.accuracy(),
        }

    def _seen(
        self, log_probs: Float[Tensor, "B T"], batch: Batch, advantages: Float[Tensor, "B T"]
    ) -> dict[str, float]:
        """What this update's data looked like to the weights that met it."""
        mask = batch.action_mask
        with torch.no_grad():
            now = log_probs.detach()
            drift = now - batch.behaviour_log_probs
            surrogate = self.estimator.surrogate(now, batch, advantages)
            gradient = torch.zeros_like(now) if log_probs.grad is None else log_probs.grad
            return {
                "ess_token": diagnostics.ess_token(drift, mask).item(),
                "ess_sequence": diagnostics.ess_sequence(drift, mask).item(),
                "k1": diagnostics.k1(drift, mask).item(),
                "k3": diagnostics.k3(drift, mask).item(),
                **diagnostics.gradient_flow(surrogate, gradient, advantages, mask),
            }

    def accuracy(self) -> float:
        """Probability of a right answer to a uniformly drawn question: exact, by enumeration."""
        a, b = self._everything
        modulus = self.policy.modulus
        with torch.no_grad():
            log_probs = answer_log_probs(self.policy.weights(), self._everything)
            right = log_probs.gather(-1, ((a + b) % modulus)[..., None])
            return right.exp().mean().item()


@final
class Critic:
    """The value network and its K fits a policy update."""

    def __init__(self, network: TokenCritic, recipe: CriticRecipe, *, learning_rate: float) -> None:
        self.network = network
        self.recipe = recipe
        self._optimizer = torch.optim.Adam(network.parameters(), lr=learning_rate, fused=True)

    def fit(self, questions: Questions, batch: Batch) -> tuple[Batch, dict[str, float]]:
        """Fit to this batch's targets; returns the batch with the values the advantage shall use."""
        with torch.no_grad():
            before = dataclasses.replace(batch, values=self.network(questions, batch.token_ids))
        targets = value_targets(before, lam=self.recipe.lambda_critic)
        total = batch.action_mask.sum()
        first_loss = norm = math.nan
        for k in range(self.recipe.updates_per_policy_update):
            values = self.network(questions, batch.token_ids)
            loss = value_loss(values, targets, batch.action_mask, total=total)
            self._optimizer.zero_grad()
            loss.backward()  # type: ignore[no-untyped-call]
            if k == 0:
                first_loss, norm = loss.item(), _norm(self.network)
            if math.isfinite(loss.item()):
                self._optimizer.step()
        seen = {
            "critic_loss": first_loss,
            "critic_gradient_norm": norm,
            "explained_variance": diagnostics.explained_variance(
                _required(before.values), targets, batch.action_mask
            ).item(),
        }
        if self.recipe.value_when == "before":
            return before, seen
        with torch.no_grad():
            return dataclasses.replace(batch, values=self.network(questions, batch.token_ids)), seen


def _chosen(log_probs: Float[Tensor, "B T V"], batch: Batch) -> Float[Tensor, "B T"]:
    return log_probs.gather(-1, batch.token_ids[..., None]).squeeze(-1)


def _norm(module: nn.Module) -> float:
    gradients = [p.grad for p in module.parameters() if p.grad is not None]
    return torch.nn.utils.get_total_norm(gradients).item()


def _required(values: Tensor | None) -> Tensor:
    if values is None:
        raise ValueError("values are absent: fill them with the critic first")
    return values
