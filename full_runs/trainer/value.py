"""The value network at work on many ranks: K fits to a batch, and the values that enter its advantage."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Sequence
from typing import final

import torch
from jaxtyping import Float
from torch import Tensor, nn
from torch.nn.functional import pad

from algorithms.critic import CriticRecipe, fit, value_loss
from full_runs.trainer.model import CausalCritic
from full_runs.trainer.ranks import Ranks
from full_runs.trainer.shares import Share, gathered, loss_and_norm
from simulator.lab.critic import Valued, seen_by_fit, valued
from simulator.lab.models.lengths import PADDING
from simulator.lab.parts import Lesson


@final
class ShardedCritic:
    """A sharded value network, its optimizer and its recipe.

    Args:
        network: sharded; what the recipe freezes is frozen.
        recipe: K, warm-up, and which values the advantage reads.
        policy_learning_rate: the recipe's ratio multiplies it.
        optimizer: (parameters, learning rate) -> their optimizer.
    """

    def __init__(
        self,
        network: CausalCritic,
        recipe: CriticRecipe,
        *,
        policy_learning_rate: float,
        optimizer: Callable[[Iterable[nn.Parameter], float], torch.optim.Optimizer],
        ranks: Ranks,
    ) -> None:
        self.network = network
        self.recipe = recipe
        self.ranks = ranks
        self._policy_learning_rate = policy_learning_rate
        self._trained = [p for p in network.parameters() if p.requires_grad]
        self.optimizer = optimizer(self._trained, policy_learning_rate)
        self.fits = 0

    def fit(self, lesson: Lesson, shares: Sequence[Share]) -> Valued:
        """K updates toward targets that are fixed before the first of them (collective)."""
        batch, width = lesson.batch, lesson.batch.token_ids.shape[1]
        # One piece alone keeps its graph, which the first update needs; of several, one exists at a time.
        graphs = [self._values(lesson, shares[0])] if len(shares) == 1 else []
        before = self._whole(lesson, shares, graphs)
        targets = self.recipe.targets(valued(batch, before))
        fitted = self.recipe.fitted(batch)
        total = fitted.sum()
        losses: list[float] = []
        norms: list[float] = []

        def predict() -> Tensor:
            return self._whole(lesson, shares, []) if losses else before

        def update() -> None:
            self.optimizer.zero_grad()
            loss = torch.zeros((), device=total.device)
            for share in shares:
                predicted = graphs.pop() if graphs else self._values(lesson, share)
                mask = fitted[share.rows] & share.counts
                part = value_loss(predicted[:, :width], targets[share.rows], mask, total)
                # FSDP averages gradients over ranks; their sum is the whole batch's.
                (part * self.ranks.count).backward()  # type: ignore[no-untyped-call]
                loss += part.detach()
            gradient = [p.grad for p in self._trained if p.grad is not None]
            whole, norm = loss_and_norm(loss, gradient, self.ranks)
            losses.append(whole)
            norms.append(norm)
            if math.isfinite(norm):
                self.optimizer.step()

        rate = self._policy_learning_rate * self.recipe.learning_rate_factor(self.fits)
        for group in self.optimizer.param_groups:
            group["lr"] = rate
        values = fit(self.recipe, predict, update)
        self.optimizer.zero_grad()
        self.fits += 1
        metrics = seen_by_fit(losses[0], norms[0], before, targets, batch)
        return Valued(Lesson(prompts=lesson.prompts, batch=valued(batch, values)), metrics)

    def _values(self, lesson: Lesson, share: Share) -> Float[Tensor, "b n"]:
        """Of every token; and of the state after the last one, if any rollout was cut."""
        tokens = lesson.batch.token_ids[share.rows]
        if lesson.batch.truncated.any():
            tokens = pad(tokens, (0, 1), value=PADDING)
        predicted: Tensor = self.network(lesson.prompts[share.rows], tokens)
        return predicted

    def _whole(
        self, lesson: Lesson, shares: Sequence[Share], graphs: Sequence[Tensor]
    ) -> Float[Tensor, "B n"]:
        parts = list(graphs)
        if not parts:
            with torch.no_grad():
                parts = [self._values(lesson, share) for share in shares]
        return gathered(parts, shares, len(lesson.prompts), self.ranks)
