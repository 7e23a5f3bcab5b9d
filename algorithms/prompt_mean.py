"""How can every prompt weigh the same, however long its answers are?"""

from __future__ import annotations

import dataclasses

import torch
from jaxtyping import Float
from torch import Tensor

from algorithms.correction import both
from algorithms.estimator import Estimator
from algorithms.rollout import Batch


def each_prompt_alike(
    estimator: Estimator,
    log_probs: Float[Tensor, "B T"],  # noqa: ARG001
    batch: Batch,
    advantages: Float[Tensor, "B T"],  # noqa: ARG001
) -> Estimator:
    r"""An `Estimator.adapt` that turns a token mean into a mean over prompts.

    .. math:: \frac{1}{N} \sum_{i,t} \frac{N}{P N_{g(i)}}\, \ell_{i,t}
        = \frac{1}{P} \sum_{g} \frac{1}{N_g} \sum_{i \in g,\, t} \ell_{i,t}

    with N action tokens in the batch, :math:`N_g` of a group, and P groups that have any. All tokens of a
    group share its weight, so its longer rollouts still weigh more; `sequence_mean` evens those out too.
    *Choice*: a group is a prompt; a prompt sampled in two groups counts twice. Tokens that a correction
    drops count in :math:`N_g`. Regularisers keep the token mean.

    Returns:
        The estimator, its correction multiplied by each group's weight. It knows the groups of this batch
        alone.
    """
    groups, index = torch.unique(batch.group_ids, return_inverse=True)
    own = torch.zeros_like(groups).index_add(0, index, batch.action_tokens)
    prompts = (own > 0).sum().clamp(min=1)
    shares = own.sum() / (prompts * own.clamp(min=1)).double()

    def weigh(some: Batch) -> Float[Tensor, "B T"]:
        place = torch.searchsorted(groups, some.group_ids.contiguous()).clamp(max=len(groups) - 1)
        if (groups[place] != some.group_ids).any():
            raise ValueError("a group is not in the batch that fixed() was given: fix this batch first")
        weight = shares[place, None].to(some.behaviour_log_probs.dtype)
        return weight.expand_as(some.action_mask).where(some.action_mask, 0.0)

    correction = weigh if estimator.correction is None else both(estimator.correction, weigh)
    return dataclasses.replace(estimator, correction=correction)
