"""One optimizer update: the four lines that every learner here and at full scale runs.

    advantages = estimator.advantage(batch)
    fixed = estimator.fixed(log_probs, batch, advantages)
    total = fixed.total(batch)
    fixed.loss(log_probs, batch, advantages=advantages, total=total).backward()

Around them: the critic's K fits on the same batch, the refusal of non-finite gradients, and what the
update saw.
"""

from __future__ import annotations

import dataclasses
import math
from typing import final

import torch
from jaxtyping import Float
from torch import Tensor

from algorithms import diagnostics
from algorithms.estimator import Estimator
from algorithms.rollout import Batch
from simulator.lab.critic import CriticLearner
from simulator.lab.modular_addition import Questions, right_answers
from simulator.lab.networks import LogProbTable, TokenCritic, TokenPolicy


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
        self._right = right_answers(modulus)[:, None]
        self.critic: CriticLearner | None = None
        if estimator.critic is not None:
            network = TokenCritic(self.policy, generator=generator)
            self.critic = CriticLearner(network, estimator.critic, policy_learning_rate=learning_rate)
        self._updates = 0

    def log_probs(self, questions: Questions, batch: Batch) -> Float[Tensor, "B T"]:
        """log pi of the batch's answers under the weights being trained, in nats."""
        return _of_answers(self.policy(), questions, batch)

    def update(self, questions: Questions, batch: Batch, old: LogProbTable) -> dict[str, float]:
        """Train on one update's rollouts and say what happened.

        Args:
            questions: the prompts of `batch`.
            batch: whole groups; its behaviour log-probs and versions are the sampler's.
            old: what the trainer's weights said when it took the batch that this update belongs to (pi_old).
        """
        batch = dataclasses.replace(batch, old_log_probs=_of_answers(old, questions, batch))
        metrics: dict[str, float] = {"reward": batch.returns.mean().item()}
        policy_trains = True
        if self.critic is not None:
            batch, seen = self.critic.fit(questions, batch)
            metrics |= seen
            policy_trains = self.critic.recipe.policy_trains(self._updates)
        log_probs = self.log_probs(questions, batch)
        log_probs.retain_grad()
        advantages = self.estimator.advantage(batch)
        fixed = self.estimator.fixed(log_probs, batch, advantages)
        total = fixed.total(batch, log_probs)
        loss = fixed.loss(log_probs, batch, advantages=advantages, total=total)
        self._optimizer.zero_grad()
        loss.backward()  # type: ignore[no-untyped-call]
        norm = torch.nn.utils.get_total_norm([w.grad for w in self.policy.parameters() if w.grad is not None])
        # A non-finite step would end the run without a word; refused, it is a count in the log.
        refused = not (math.isfinite(norm) and math.isfinite(loss.detach()))
        if policy_trains and not refused:
            self._optimizer.step()
        self._updates += 1
        return (
            metrics
            | self._seen(fixed, log_probs, batch, advantages)
            | {
                "loss": loss.item(),
                "gradient_norm": norm.item(),
                "refused": float(refused),
            }
            | self._exactly()
        )

    @staticmethod
    def _seen(
        fixed: Estimator,
        log_probs: Float[Tensor, "B T"],
        batch: Batch,
        advantages: Float[Tensor, "B T"],
    ) -> dict[str, float]:
        """What this update's data looked like to the weights that met it."""
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
            **{f"{name}_fraction": share for name, share in dataclasses.asdict(flow).items()},
        }

    def _exactly(self) -> dict[str, float]:
        """Accuracy and entropy of the policy as it is now, over all questions: no sampling error."""
        says = self.policy.snapshot()
        return {
            "accuracy": says.gather(-1, self._right).exp().mean().item(),
            "entropy": -(says.exp() * says).sum(-1).mean().item(),
        }


def _of_answers(says: LogProbTable, questions: Questions, batch: Batch) -> Float[Tensor, "B T"]:
    """Log-probs of the answers in the batch, in nats."""
    modulus = says.shape[1]
    return says.flatten()[questions.number(modulus) * modulus + batch.token_ids]
