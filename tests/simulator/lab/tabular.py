"""A learner of five lines for policies that are tables: what `Learner` does, without what it watches."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import torch

from algorithms.estimator import Estimator
from simulator.lab.models.logits import LogitPolicy
from simulator.lab.parts import Lesson
from simulator.lab.traffic import Part, Traffic


def traffic(
    first: int, rollouts: int, parts: Sequence[Part] = (Part(0, 0),), *, group_size: int = 1, tokens: int = 60
) -> Traffic:
    """Rollouts `first`, `first + 1`, ...; all made by the same versions."""
    ids = np.arange(first, first + rollouts)
    return Traffic(
        version=max(part.version for part in parts),
        index_in_batch=0,
        rollout_ids=ids,
        prompt_ids=ids // group_size,
        group_ids=ids // group_size,
        length_tokens=[tokens] * rollouts,
        parts=[parts] * rollouts,
    )


def gradient(estimator: Estimator, policy: LogitPolicy, lesson: Lesson) -> torch.Tensor:
    """Ascent direction of one update: minus the gradient of the loss."""
    batch = lesson.batch
    log_probs = policy.log_probs(lesson.prompts, batch.token_ids)
    advantages = estimator.advantage(batch)
    fixed = estimator.fixed(log_probs, batch, advantages)
    total = fixed.total(batch, log_probs)
    loss = fixed.loss(log_probs, batch, advantages=advantages, total=total)
    return -torch.autograd.grad(loss, policy.logits)[0]
