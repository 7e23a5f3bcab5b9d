"""Trajectory balance with asynchrony: a regression on log-probs that holds whoever sampled."""

from __future__ import annotations

import math
from functools import partial

import torch
from jaxtyping import Float
from torch import Tensor

from algorithms.advantage import acting
from algorithms.aggregate import Aggregate, sequence_mean
from algorithms.estimator import Estimator
from algorithms.piece import piece
from algorithms.precision import working
from algorithms.ratio import per_token_reference
from algorithms.rollout import Batch
from algorithms.trust import TrustRegion


def rollout_to_reference(log_probs: Float[Tensor, "B T"], batch: Batch) -> Float[Tensor, "B T"]:
    r"""S, the log-ratio of a whole rollout to the reference, repeated along `T`.

    .. math:: S = \sum_t \log \frac{\pi(a_t \mid s_t)}{\pi_{ref}(a_t \mid s_t)}

    Raises:
        ValueError: `reference_log_probs` is absent, or `log_probs` has another shape than the batch.
    """
    ratio = per_token_reference(log_probs, batch)
    return ratio.sum(-1, keepdim=True).expand_as(ratio).where(batch.action_mask, 0.0)


def balance_target(batch: Batch, *, beta: float) -> Float[Tensor, "B T"]:
    r"""What beta S should be: the reward, less the group's estimate of the log-partition function.

    .. math:: R - \beta\hat Z, \qquad \hat Z = \frac{1}{K} \sum_k \Bigl(\frac{R_k}{\beta} - S_k\Bigr)

    Z is what makes the reference, tilted by exp(R / beta), sum to one; every rollout of the prompt
    estimates it, whichever policy sampled it, and the estimates agree once S is right.

    *Choice*: S in Z is pi_old's, from before the batch's first update. At that update it is the published
    stop-gradient of the present policy; at later updates of the same batch it stays.

    Args:
        beta: units of reward worth one nat.

    Returns:
        In units of reward, constant along `T`, zero off the action tokens.

    Raises:
        ValueError: `old_log_probs` or `reference_log_probs` is absent.
    """
    if batch.old_log_probs is None:
        raise ValueError(
            "balance_target needs old_log_probs, got None: score the batch before its first update"
        )
    moved = beta * per_token_reference(batch.old_log_probs.detach(), batch).double().sum(-1)
    rewards = batch.returns.double()
    ids, group = torch.unique(batch.group_ids, return_inverse=True)
    groups = rewards.new_zeros(len(ids))
    # A row without a single action token estimates nothing: its terms are zero, and it is not counted.
    size = groups.index_add(0, group, acting(batch).double()).clamp(min=1)
    partition = groups.index_add(0, group, rewards - moved) / size
    target = (rewards - partition[group]).to(working(batch.rewards.dtype))
    return target[:, None].expand_as(batch.action_mask).where(batch.action_mask, 0.0)


@piece
def balance(beta: float) -> TrustRegion:
    r"""Minus the squared distance to the target: :math:`-\frac{1}{2\beta} (\beta S - A)^2`.

    Its gradient is :math:`(A - \beta S) \nabla S`: REINFORCE's, the reward less beta S for a reward. Nothing
    is bounded: a rollout far from its target pulls with all its distance.

    Args:
        beta: units of reward worth one nat.

    Raises:
        ValueError: `beta` is not positive and finite.
    """
    if not 0 < beta < math.inf:
        raise ValueError(f"beta must be positive and finite, got {beta}")

    def surrogate(
        log_ratio: Float[Tensor, "B T"],
        advantages: Float[Tensor, "B T"],
        log_probs: Float[Tensor, "B T"],  # noqa: ARG001
    ) -> Float[Tensor, "B T"]:
        return -(beta * log_ratio - advantages).square() / (2 * beta)

    return surrogate


def tba(*, beta: float = 0.012, aggregate: Aggregate = sequence_mean) -> Estimator:
    r"""TBA: trajectory balance with the partition function estimated by the group (VarGrad), no ratio to mu.

    .. math:: \min\ \frac{\beta}{2} \Bigl(\hat Z + S - \frac{R}{\beta}\Bigr)^2, \qquad
        S = \sum_t \log\frac{\pi(a_t \mid s_t)}{\pi_{ref}(a_t \mid s_t)}

    At its minimum pi is the reference tilted by exp(R / beta), the optimum of the reward less beta times
    KL(pi || ref), on *any* distribution of rollouts that covers the responses: staleness costs efficiency,
    not the optimum. Away from it the step is REINFORCE's on R - beta S with the group's mean for a baseline,
    stale rollouts counting as fresh.

    *Choice*: the published square is multiplied by beta / 2, a constant factor, so that advantages are in
    units of reward and a step is of the size of other estimators'.

    Args:
        beta: units of reward worth one nat: 0.012 falling to 0.004 for mathematics, with K = 20 rollouts a
            prompt. Its schedule is the learner's, which makes the estimator anew.
        aggregate: *choice*, `sequence_mean`: each rollout's square counts once.

    Raises:
        ValueError: `beta` is not positive and finite.

    References:
        Bartoldson et al., Trajectory Balance with Asynchrony, 2025. https://arxiv.org/abs/2503.18929.
    """
    return Estimator(
        advantage=partial(balance_target, beta=beta),
        log_ratio=rollout_to_reference,
        trust=balance(beta),
        aggregate=aggregate,
    )
