"""One optimizer update: the four lines that every learner here and at full scale runs.

    advantages = estimator.advantage(batch)
    fixed = estimator.fixed(log_probs, batch, advantages)
    total = fixed.total(batch)
    fixed.loss(log_probs, batch, advantages=advantages, total=total).backward()

Around them: the critic's K fits on the same batch, what a method does beside its loss, the refusal of
non-finite gradients, and what the update saw.
"""

from __future__ import annotations

import copy
import dataclasses
import math
from collections.abc import Callable, Iterable, Sequence
from typing import Any, final

import torch
from jaxtyping import Float
from torch import Tensor, nn

from algorithms import diagnostics
from algorithms.advantage import acting
from algorithms.estimator import Estimator
from algorithms.rollout import Batch
from algorithms.stabilise.gac import cosine, inner_products
from simulator.lab.critic import CriticLearner
from simulator.lab.methods import Method
from simulator.lab.parts import Critic, Lesson, Policy, Speaker
from simulator.lab.score_norms import squared_score_norms

MakeOptimizer = Callable[[Iterable[nn.Parameter], float], torch.optim.Optimizer]
"""(parameters, learning rate) -> their optimizer."""


def adam(parameters: Iterable[nn.Parameter], learning_rate: float) -> torch.optim.Optimizer:
    """Adam as PyTorch has it."""
    return torch.optim.Adam(parameters, lr=learning_rate, fused=True)


def sgd(parameters: Iterable[nn.Parameter], learning_rate: float) -> torch.optim.Optimizer:
    """Plain gradient descent."""
    return torch.optim.SGD(parameters, lr=learning_rate)


@final
class Learner:
    """A policy, its optimizer, and a critic if the estimator asks for one.

    Args:
        method: what is learned from, and how.
        policy: its starting weights; they will move.
        critic: (policy) -> a value network; called if the estimator has a critic recipe.
        learning_rate: of the policy; the critic's is the recipe's multiple of it.
        optimizer: of both.
    """

    def __init__(
        self,
        method: Method,
        policy: Policy,
        critic: Callable[[Policy], Critic],
        *,
        learning_rate: float,
        optimizer: MakeOptimizer = adam,
    ) -> None:
        self.method = method
        self.policy = policy
        self.learning_rate = learning_rate
        self._parameters = list(policy.parameters())
        self.optimizer = optimizer(self._parameters, learning_rate)
        self.critic: CriticLearner | None = None
        if method.estimator.critic is not None:
            self.critic = CriticLearner(
                critic(policy),
                method.estimator.critic,
                policy_learning_rate=learning_rate,
                optimizer=optimizer,
            )
        self.reference = policy.snapshot() if method.needs_reference else None
        self.baseline = method.baseline
        self.previous_gradient: Sequence[Tensor] | None = None
        self.updates = 0

    def update(self, lesson: Lesson, old: Speaker | None = None) -> dict[str, float]:
        """Train on one update's rollouts and say what happened.

        Args:
            lesson: whole groups; its behaviour log-probs and versions are the sampler's. Rows without an
                action token are no part of it; if there are no others, no weight moves.
            old: what the trainer held when it took the batch that this update belongs to (pi_old); None if
                that is what it holds now.
        """
        log_probs = self.policy.log_probs(lesson.prompts, lesson.batch.token_ids)
        log_probs.retain_grad()
        lesson = self._scored(lesson, log_probs.detach(), old)
        # Of nobody it is NaN: not measured.
        metrics: dict[str, float] = {"reward": lesson.batch.returns[acting(lesson.batch)].mean().item()}
        policy_trains = True
        if self.critic is not None:
            policy_trains = self.critic.recipe.policy_trains(self.updates)
            lesson, seen = self.critic.fit(lesson)
            metrics |= seen
        batch, estimator = lesson.batch, self.method.estimator
        advantages = self._advantages(lesson)
        fixed = estimator.fixed(log_probs, batch, advantages)
        total = fixed.total(batch, log_probs)
        loss = fixed.loss(log_probs, batch, advantages=advantages, total=total)
        self.optimizer.zero_grad()
        loss.backward()  # type: ignore[no-untyped-call]
        metrics |= seen_by(fixed, log_probs, batch, advantages)
        metrics |= self._step(loss.item(), batch, policy_trains=policy_trains)
        if self.baseline is not None:
            self.baseline = self.baseline.extended(batch)
        self.updates += 1
        return metrics

    def _advantages(self, lesson: Lesson) -> Float[Tensor, "B T"]:
        if self.method.advantage is None:
            return self.method.estimator.advantage(lesson.batch)
        return self.method.advantage(lesson.batch, squared_score_norms(self.policy, lesson))

    def pushed(self) -> None:
        """Engines hold the present weights from now on."""
        if self.method.after_push is not None:
            self.method.after_push(self.optimizer)

    def _scored(self, lesson: Lesson, now: Float[Tensor, "B T"], old: Speaker | None) -> Lesson:
        """The lesson with everything that other weights, or earlier rollouts, say of it."""
        batch, prompts, tokens = lesson.batch, lesson.prompts, lesson.batch.token_ids
        with torch.no_grad():
            scores: dict[str, Tensor] = {
                "old_log_probs": now if old is None else old.log_probs(prompts, tokens),
                # Sampler and trainer are one program here: no engine mismatch.
                "proximal_log_probs": batch.behaviour_log_probs,
            }
            if self.reference is not None:
                scores["reference_log_probs"] = self.reference.log_probs(prompts, tokens)
        if self.baseline is not None:
            scores["baselines"] = self.baseline.baselines(batch.prompt_ids).to(batch.rewards.dtype)
        return Lesson(prompts=prompts, batch=dataclasses.replace(batch, **scores))

    def _step(self, loss: float, batch: Batch, *, policy_trains: bool) -> dict[str, float]:
        gradient = [w.grad for w in self._parameters if w.grad is not None]
        norm = torch.nn.utils.get_total_norm(gradient).item()
        # A non-finite step would end the run without a word; refused, it is a count in the log.
        refused = not (math.isfinite(norm) and math.isfinite(loss))
        skipped, similar, factor = False, math.nan, 1.0
        if not batch.action_mask.any():
            skipped = True  # moments would move the weights without any gradient
        elif policy_trains and not refused:
            products = inner_products(gradient, self.previous_gradient)
            similar = cosine(products)
            previous: Sequence[Tensor] = [g.clone() for g in gradient]
            if self.method.control is not None:
                controlled = self.method.control(gradient, self.previous_gradient, products)
                skipped, previous = controlled.skipped, controlled.previous
                for own, shaped in zip(gradient, controlled.gradient, strict=True):
                    own.copy_(shaped)
            self.previous_gradient = previous
            if self.method.learning_rate_factor is not None:
                factor = self.method.learning_rate_factor(batch)
                for group in self.optimizer.param_groups:
                    group["lr"] = self.learning_rate * factor
            if not skipped:
                self.optimizer.step()
        return {
            "loss": loss,
            "gradient_norm": norm,
            "gradient_cosine": similar,
            "learning_rate_factor": 0.0 if skipped else factor,
            "refused": float(refused),
        }

    def state(self) -> dict[str, Any]:
        """All that a later update depends on, for a checkpoint; tensors and plain values only."""
        critic = None if self.critic is None else self.critic.state()
        return {
            "policy": {name: tensor.clone() for name, tensor in self.policy.state_dict().items()},
            "optimizer": copy.deepcopy(self.optimizer.state_dict()),
            "critic": critic,
            "previous_gradient": None if self.previous_gradient is None else list(self.previous_gradient),
            "baseline": None if self.baseline is None else self.baseline.state(),
            "updates": self.updates,
        }

    def load_state(self, state: dict[str, Any]) -> None:
        """Go back to what `state` returned."""
        self.policy.load_state_dict(state["policy"])
        self.optimizer.load_state_dict(state["optimizer"])
        if self.critic is not None:
            self.critic.load_state(state["critic"])
        if self.baseline is not None:
            self.baseline = self.baseline.recalled(state["baseline"])
        self.previous_gradient = state["previous_gradient"]
        self.updates = state["updates"]


def seen_by(
    fixed: Estimator, log_probs: Float[Tensor, "B T"], batch: Batch, advantages: Float[Tensor, "B T"]
) -> dict[str, float]:
    """What an update's data looked like to the weights that met it; after `backward`."""
    mask = batch.action_mask
    with torch.no_grad():
        drift = log_probs.detach() - batch.behaviour_log_probs
        surrogate = fixed.surrogate(log_probs.detach(), batch, advantages)
    gradient = torch.zeros_like(drift) if log_probs.grad is None else log_probs.grad
    flow = diagnostics.gradient_flow(surrogate, gradient, advantages, mask)
    return {
        "ess_token": diagnostics.token_ess(drift, mask),
        "ess_sequence": diagnostics.sequence_ess(drift, mask),
        "k1": diagnostics.k1(drift, mask),
        "k3": diagnostics.k3(drift, mask),
        **{f"log_ratio_{name}": size for name, size in diagnostics.log_ratio_quantiles(drift, mask).items()},
        **{f"{name}_fraction": getattr(flow, name) for name in flow.__slots__},
    }
