"""One optimizer update on sharded weights: the four lines that the lab's learner runs, over ranks and pieces.

Every rank holds the whole batch, whole groups, so advantages, bounds and divisors are the whole batch's and
equal on all ranks without a word. Only passes through the networks are divided.
"""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Sequence
from typing import final

import torch
from jaxtyping import Float
from torch import Tensor, nn

from algorithms.estimator import Estimator
from algorithms.rollout import Batch
from algorithms.stabilise.gac import inner_products
from full_runs.trainer.model import CausalPolicy
from full_runs.trainer.ranks import Ranks, as_part, local, total_norm
from full_runs.trainer.shares import Share, gathered, gathered_with_norm, shared
from full_runs.trainer.value import ShardedCritic
from simulator.lab.learner import MakeOptimizer, adam, seen_by
from simulator.lab.methods import Method
from simulator.lab.parts import Lesson


@final
class Trainer:
    """A sharded policy, its optimizer, and a sharded critic if the estimator asks for one.

    Args:
        method: what is learned from, and how.
        policy: sharded, at its starting weights.
        critic: sharded; present if and only if the estimator has a critic recipe.
        reference: the starting policy, sharded; needed if the method reads one.
        learning_rate: of the policy.
        optimizer: of the policy.
        tokens_at_once: a micro-batch has at most so many; None is one micro-batch a rank.
        scored_first: with several micro-batches, whether a pass without gradient goes first, so that the
            advantage may read the policy's log-probs. False spares it where the estimator does not.
        max_gradient_norm: the policy's gradient is shortened to it; None leaves it, as the lab does.

    Raises:
        ValueError: a critic or a reference that the method needs is absent.
    """

    def __init__(
        self,
        method: Method,
        policy: CausalPolicy,
        ranks: Ranks,
        *,
        critic: ShardedCritic | None = None,
        reference: CausalPolicy | None = None,
        learning_rate: float,
        optimizer: MakeOptimizer = adam,
        tokens_at_once: int | None = None,
        scored_first: bool = True,
        max_gradient_norm: float | None = None,
    ) -> None:
        estimator = method.estimator
        if (critic is None) != (estimator.critic is None):
            raise ValueError(f"critic is {critic}, and the estimator's recipe for one {estimator.critic}")
        if reference is None and method.needs_reference:
            raise ValueError("reference is None, and this method reads the starting policy's log-probs")
        self.method = method
        self.policy = policy
        self.ranks = ranks
        self.critic = critic
        self.reference = reference
        self.learning_rate = learning_rate
        self.parameters: dict[str, nn.Parameter] = dict(policy.named_parameters())
        self.optimizer = optimizer(self.parameters.values(), learning_rate)
        self.tokens_at_once = tokens_at_once
        # Searched bounds and counted divisors need the whole batch's log-probs, whatever was asked for.
        self.scored_first = scored_first or estimator.adapt is not None or estimator.counted is not None
        self.max_gradient_norm = max_gradient_norm
        self.baseline = method.baseline
        self.previous_gradient: Sequence[Tensor] | None = None
        self.updates = 0

    def update(self, lesson: Lesson) -> dict[str, float]:
        """Train on one update's rollouts and say what happened (collective).

        Args:
            lesson: whole groups, the same on every rank. `old_log_probs` may be there, scored when the batch
                was taken; absent, they are what the policy says now.
        """
        shares = shared(lesson, self.policy.layout, self.ranks, self.tokens_at_once)
        count = len(lesson.prompts)
        # One piece alone keeps its graph; of several, only one is ever in memory.
        graphs = [self._said(self.policy, lesson, shares[0])] if len(shares) == 1 else []
        now: Tensor | None = None
        if graphs:
            now = gathered(graphs, shares, count, self.ranks)
        elif self.scored_first:
            now = self.log_probs(lesson, shares)
        own_old = lesson.batch.old_log_probs is None
        lesson = self._scored(lesson, shares, now)
        metrics: dict[str, float] = {"reward": lesson.batch.returns.mean().item()}
        policy_trains = True
        if self.critic is not None:
            policy_trains = self.critic.recipe.policy_trains(self.updates)
            lesson, seen = self.critic.fit(lesson, shares)
            metrics |= seen
        batch, estimator = lesson.batch, self.method.estimator
        advantages = estimator.advantage(batch)
        fixed = estimator if now is None else estimator.fixed(now, batch, advantages)
        total = fixed.total(batch, now)
        said, flow = [], []
        loss = torch.zeros((), device=total.device)
        for share in shares:
            log_probs = graphs.pop() if graphs else self._said(self.policy, lesson, share)
            log_probs.retain_grad()
            part = share.of(batch)
            if own_old:
                part = dataclasses.replace(part, old_log_probs=log_probs.detach())
            term = fixed.loss(log_probs, part, advantages=advantages[share.rows], total=total)
            # FSDP averages gradients over ranks; their sum is the whole batch's.
            (term * self.ranks.count).backward()  # type: ignore[no-untyped-call]
            loss += term.detach()
            said.append(log_probs.detach())
            flow.append(torch.zeros_like(log_probs) if log_probs.grad is None else log_probs.grad)
        gradient = [p.grad for p in self.parameters.values() if p.grad is not None]
        flow = [part / self.ranks.count for part in flow]
        if now is None:
            flow = [torch.stack(pair, dim=1) for pair in zip(flow, said, strict=True)]
        by_log_prob, summed, norm = gathered_with_norm(flow, shares, count, loss, gradient, self.ranks)
        if now is None:
            by_log_prob, now = by_log_prob.unbind(1)
        if own_old:
            batch = dataclasses.replace(batch, old_log_probs=now)
        metrics |= _seen(fixed, now, by_log_prob, batch, advantages)
        metrics |= self._step(gradient, summed, norm, batch, policy_trains=policy_trains)
        if self.baseline is not None:
            self.baseline = self.baseline.extended(batch)
        self.updates += 1
        return metrics

    def log_probs(self, lesson: Lesson, shares: Sequence[Share] | None = None) -> Float[Tensor, "B T"]:
        """Of the whole batch under the present weights, without gradient (collective)."""
        return self._all_said(self.policy, lesson, shares)

    def pushed(self) -> None:
        """Engines hold the present weights from now on."""
        if self.method.after_push is not None:
            self.method.after_push(self.optimizer)

    def _said(self, policy: CausalPolicy, lesson: Lesson, share: Share) -> Float[Tensor, "b T"]:
        batch = lesson.batch
        said: Tensor = policy(
            lesson.prompts[share.rows], batch.token_ids[share.rows], batch.temperature[share.rows]
        )
        return said

    def _all_said(
        self, policy: CausalPolicy, lesson: Lesson, shares: Sequence[Share] | None
    ) -> Float[Tensor, "B T"]:
        if shares is None:
            shares = shared(lesson, policy.layout, self.ranks, self.tokens_at_once)
        with torch.no_grad():
            parts = [self._said(policy, lesson, share) for share in shares]
        return gathered(parts, shares, len(lesson.prompts), self.ranks)

    def _scored(self, lesson: Lesson, shares: Sequence[Share], now: Tensor | None) -> Lesson:
        """The lesson with everything that other weights, or earlier rollouts, say of it."""
        batch = lesson.batch
        scores: dict[str, Tensor] = {}
        if batch.old_log_probs is None and now is not None:
            scores["old_log_probs"] = now
        if batch.proximal_log_probs is None:
            # *Choice*, where nobody scored the batch at its own version: no engine mismatch.
            scores["proximal_log_probs"] = batch.behaviour_log_probs
        if self.reference is not None and batch.reference_log_probs is None:
            scores["reference_log_probs"] = self._all_said(self.reference, lesson, shares)
        if self.baseline is not None:
            scores["baselines"] = self.baseline.baselines(batch.prompt_ids).to(batch.rewards.dtype)
        return Lesson(prompts=lesson.prompts, batch=dataclasses.replace(batch, **scores))

    def _step(
        self, gradient: Sequence[Tensor], loss: float, norm: float, batch: Batch, *, policy_trains: bool
    ) -> dict[str, float]:
        # The norm and the loss are the same numbers on all ranks, so all refuse or none does.
        refused = not (math.isfinite(norm) and math.isfinite(loss))
        skipped, cosine, factor = False, math.nan, 1.0
        if policy_trains and not refused:
            if self.method.control is not None:
                skipped, cosine = self._controlled(gradient)
            if self.max_gradient_norm is not None and not skipped:
                shorter = min(1.0, self.max_gradient_norm / (total_norm(gradient) + 1e-12))
                for own in gradient:
                    own.mul_(shorter)
            if self.method.learning_rate_factor is not None:
                factor = self.method.learning_rate_factor(batch)
                for group in self.optimizer.param_groups:
                    group["lr"] = self.learning_rate * factor
            if not skipped:
                self.optimizer.step()
        self.optimizer.zero_grad()
        return {
            "loss": loss,
            "gradient_norm": norm,
            "gradient_cosine": cosine,
            "learning_rate_factor": 0.0 if skipped else factor,
            "refused": float(refused),
        }

    def _controlled(self, gradient: Sequence[Tensor]) -> tuple[bool, float]:
        """Shape the gradient in place; whether the update is skipped, and its cosine with the previous one.

        The previous gradient is kept for this alone: it costs as much memory as the gradient.
        """
        assert self.method.control is not None
        mine = [local(g) for g in gradient]
        earlier = None if self.previous_gradient is None else [local(g) for g in self.previous_gradient]
        products = self.ranks.summed(inner_products(mine, earlier))
        controlled = self.method.control(mine, earlier, products)
        for own, shaped in zip(mine, controlled.gradient, strict=True):
            own.copy_(shaped)
        self.previous_gradient = [
            as_part(kept, whole) for kept, whole in zip(controlled.previous, gradient, strict=True)
        ]
        return controlled.skipped, controlled.cosine


def _seen(
    fixed: Estimator, said: Tensor, gradient: Tensor, batch: Batch, advantages: Tensor
) -> dict[str, float]:
    """What the lab's learner says of an update's data."""
    said = said.detach().clone().requires_grad_()
    said.grad = gradient.clone()
    return seen_by(fixed, said, batch, advantages)
