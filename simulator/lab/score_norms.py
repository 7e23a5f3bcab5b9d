r"""How large is the gradient that each rollout would pull with, were every reward one?

What a least-variance baseline weighs rollouts by. A batch's backward pass gives the sum of the rollouts'
gradients and not their sizes; here a few rollouts at a time get a gradient each.
"""

from __future__ import annotations

from typing import Final

import torch
from jaxtyping import Float64
from torch import Tensor

from simulator.lab.parts import Lesson, Policy

_AT_ONCE: Final = 8
"""Each gradient goes through all of these rollouts: fewer at once cost overhead, more cost arithmetic."""


def squared_score_norms(policy: Policy, lesson: Lesson) -> Float64[Tensor, " B"]:
    r"""Squared length of each rollout's score gradient, over all weights that train.

    .. math:: \lVert g_i \rVert^2, \qquad g_i = \nabla \sum_t \log\pi(a_t \mid s_t)

    The sum is over action tokens; without any it is zero.

    Args:
        policy: the weights at which the gradient is taken; their `grad` stays as it is.
    """
    weights = list(policy.parameters())
    norms = []
    for first in range(0, len(lesson.prompts), _AT_ONCE):
        rows = slice(first, first + _AT_ONCE)
        log_probs = policy.log_probs(lesson.prompts[rows], lesson.batch.token_ids[rows])
        scores = log_probs.where(lesson.batch.action_mask[rows], 0.0).sum(-1)
        each = torch.eye(len(scores), dtype=scores.dtype)
        gradients = torch.autograd.grad(scores, weights, each, is_grads_batched=True)
        norms.append(
            sum((g.double().flatten(1).square().sum(-1) for g in gradients), torch.zeros(len(scores)))
        )
    return torch.cat(norms)
