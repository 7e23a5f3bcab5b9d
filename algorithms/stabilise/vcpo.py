r"""VCPO: how far may a step go when few rollouts carry the weight, and against which baseline?

Both answers act beside the loss: a factor on the learning rate, and advantages that know how large each
rollout's gradient is. `algorithms.vcpo` is the loss that they belong to.
"""

from __future__ import annotations

import math

import torch
from jaxtyping import Float, Float64, Int
from torch import Tensor

from algorithms.advantage import acting, population_std
from algorithms.diagnostics import sequence_ess
from algorithms.precision import working
from algorithms.ratio import per_token
from algorithms.rollout import Batch


def learning_rate_factor(batch: Batch, *, base: float = 1.0) -> float:
    r"""Factor on the learning rate of this update, in [0, 1].

    .. math:: \sqrt{\min\Bigl(1,\ \frac{ESS / N}{b}\Bigr)}, \qquad
        w_i = \exp \sum_t \log\frac{\pi_{old}(a_t \mid s_t)}{\mu(a_t \mid s_t)}

    The effective sample size is that of the *untruncated* weights of whole rollouts, kept in log space;
    truncated ones would hide what it is to measure. Zero if no rollout has an action token.

    Args:
        batch: the whole batch of this update (gathered, if there are ranks).
        base: ESS / N from which on the learning rate is left alone: 1.0 for mathematics, 0.55 over
            several turns.

    Raises:
        ValueError: `base` outside (0, 1], or `old_log_probs` is absent.

    References:
        Huang et al., VCPO, 2026. https://arxiv.org/abs/2602.17616.
    """
    if not 0 < base <= 1:
        raise ValueError(f"base must lie in (0, 1], got {base}")
    if batch.old_log_probs is None:
        raise ValueError("VCPO needs old_log_probs, got None: score the batch before its first update")
    return math.sqrt(min(1.0, sequence_ess(per_token(batch.old_log_probs, batch), batch.action_mask) / base))


def least_variance_baseline(
    rewards: Float[Tensor, " B"],
    group_ids: Int[Tensor, " B"],
    log_weights: Float[Tensor, " B"],
    squared_norms: Float[Tensor, " B"],
) -> Float64[Tensor, " B"]:
    r"""The baseline of each rollout's group that makes the weighted gradient least noisy.

    .. math:: b = \frac{\sum_i w_i^2 \lVert g_i \rVert^2 R_i}{\sum_i w_i^2 \lVert g_i \rVert^2},
        \qquad g_i = \nabla \sum_t \log\pi(a_t \mid s_t)

    It minimises the sum of squared lengths of the terms :math:`w_i (R_i - b) g_i`. In expectation that is
    the variance, up to a constant, where the weights are exact; truncated weights have a mean that moves
    with b. A rollout enters its own baseline: a bias that goes as one over the group's size.

    Args:
        rewards: R, the return of each rollout.
        group_ids: rollouts that share a baseline.
        log_weights: log w, in nats, of the weights that the gradient is multiplied with: truncated, if it is.
        squared_norms: squared length of each rollout's score gradient, not negative, without advantage or
            weight. Where all are zero in a group, its rollouts count alike.

    Raises:
        ValueError: a negative squared norm.

    References:
        Huang et al., VCPO, 2026. https://arxiv.org/abs/2602.17616.
    """
    if (squared_norms < 0).any():
        raise ValueError(f"squared_norms must not be negative, got {squared_norms.min().item()}")
    group = torch.unique(group_ids, return_inverse=True)[1]
    # A weight of e^100 is an ordinary input, and its square is not: compare logs within the group.
    log_terms = 2 * log_weights.detach().double() + squared_norms.detach().double().log()
    largest = log_terms.new_full((len(group_ids),), -math.inf).scatter_reduce(0, group, log_terms, "amax")
    anything = largest[group] > -math.inf
    share = (log_terms - largest[group]).where(anything, 0.0).exp()
    total = torch.zeros_like(share).index_add(0, group, share)
    mean = torch.zeros_like(share).index_add(0, group, share * rewards.detach().double()) / total
    return mean[group]


def least_variance_advantages(
    batch: Batch,
    log_weights: Float[Tensor, " B"],
    squared_norms: Float[Tensor, " B"],
    *,
    eps: float = 1e-6,
) -> Float[Tensor, "B T"]:
    r"""VCPO's advantages: :math:`(R_i - b_{g(i)}) / (\sigma_{g(i)} + \epsilon)`, constant along `T`.

    Exactly zero where a group's rewards agree, and for a group of one. Pass them to `Estimator.loss`.

    Args:
        batch: the whole batch, whole groups.
        log_weights, squared_norms: as for `least_variance_baseline`.
        eps: *choice*, added to the population standard deviation, in units of reward.

    Raises:
        ValueError: a negative squared norm.

    References:
        Huang et al., VCPO, 2026. https://arxiv.org/abs/2602.17616.
    """
    # A row without a single action token has no reward, and is nobody's peer.
    acts = acting(batch)
    rewards, ids = batch.returns.double()[acts], batch.group_ids[acts]
    baseline = least_variance_baseline(rewards, ids, log_weights[acts], squared_norms[acts])
    group = torch.unique(ids, return_inverse=True)[1]

    def by_group(reduce: str) -> Float64[Tensor, " n"]:
        reduced = torch.zeros_like(rewards).scatter_reduce(0, group, rewards, reduce, include_self=False)
        return reduced[group]

    scale = population_std(rewards - by_group("mean"), group) + eps
    # Exactly zero where all agree: a baseline of equal numbers may miss them by a rounding error.
    advantages = ((rewards - baseline) / scale).where(by_group("amax") > by_group("amin"), 0.0)
    each = advantages.new_zeros(len(acts)).masked_scatter(acts, advantages)
    return each[:, None].to(working(batch.rewards.dtype)).where(batch.action_mask, 0.0)
