r"""KL penalties: an estimate of a divergence is one thing, what its derivative pulls toward is another.

Write :math:`d = \log p - \log q` for a token sampled from p. Three estimates of the *value* KL(p || q):

====  ========================  ===================================  ===================================
name  formula                   as a value                           its derivative, tokens from p = pi
====  ========================  ===================================  ===================================
k1    :math:`d`                 unbiased, of either sign             zero in expectation: noise
k2    :math:`d^2 / 2`           biased, never negative               the gradient of KL(pi || q)
k3    :math:`e^{-d} - 1 + d`    unbiased, never negative             the gradient of KL(q || pi)
====  ========================  ===================================  ===================================

An expectation over pi has pi in two places, in the term and in what is averaged over; a derivative of the
term alone misses the second. All gradients here are a token's, its prefix being given; the divergence of
whole responses, where an early token answers for what follows, takes `with_kl_in_reward`. Off-policy
(tokens from mu) each holds only under the detached weight :math:`\pi / \mu`, and then on mu's prefixes, or
on pi's own under the weight of the whole response.

References:
    Schulman, Approximating KL Divergence, 2020. http://joschu.net/blog/kl-approx.html.
    Tang, Munos, On a few pitfalls in KL divergence gradient estimation for RL, 2025.
    https://arxiv.org/abs/2506.09477.
"""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Callable
from typing import TypeAlias

import torch
from jaxtyping import Float
from torch import Tensor

from algorithms.estimator import Regulariser
from algorithms.piece import piece
from algorithms.precision import at_least_single
from algorithms.ratio import CLAMP_NATS, LogRatio, bounded_exp, per_token, per_token_reference
from algorithms.rollout import Batch

Estimate: TypeAlias = Callable[[Float[Tensor, "*shape"]], Float[Tensor, "*shape"]]
"""log p - log q of tokens sampled from p, in nats -> estimate of KL(p || q) at each, in nats."""


def k1(log_ratio: Float[Tensor, "*shape"]) -> Float[Tensor, "*shape"]:
    r"""The log-ratio itself: :math:`d`. Unbiased; negative where q likes the token better."""
    return log_ratio


def k2(log_ratio: Float[Tensor, "*shape"]) -> Float[Tensor, "*shape"]:
    r"""Half its square: :math:`d^2 / 2`. Right to second order in d, biased beyond."""
    return log_ratio.square() / 2


def k3(log_ratio: Float[Tensor, "*shape"]) -> Float[Tensor, "*shape"]:
    r"""Unbiased and, but for rounding, never negative: :math:`e^{-d} - 1 + d`.

    A token that q likes by more than `CLAMP_NATS` keeps a finite value and loses its gradient.
    """
    # expm1: at d = 1e-4 the answer is 5e-9, and single precision's 1 - 1 would leave 6e-8 of noise.
    return torch.expm1((-log_ratio).clamp(max=CLAMP_NATS)) + log_ratio.clamp(min=-CLAMP_NATS)


@piece
def kl_penalty(
    weight: float,
    estimate: Estimate,
    *,
    against: LogRatio = per_token_reference,
    importance: LogRatio | None = None,
    cap: float = math.inf,
) -> Regulariser:
    r"""An estimate of each token's divergence as a loss term, differentiated as it stands.

    .. math:: w\ \mathrm{sg}[\min(\pi/\mu,\ C)]\ k(d), \qquad d = \log\pi - \log q

    Its gradient, under the expectation over pi (or under mu with `importance=per_token`):

    - `k1`: zero. A penalty in name only; off-policy without `importance` it is minus that of KL(mu || pi)
      and pushes pi away from mu, whatever q.
    - `k2`: that of the reverse divergence KL(pi || q), like `reverse_kl`.
    - `k3`: that of the *forward* one, KL(q || pi), as GRPO has it: it covers what q does and is nearly
      blind where pi has gone and q never did, :math:`1 - e^{-d}` being at most one.

    Args:
        weight: in units of surrogate a nat.
        estimate: `k1`, `k2` or `k3`.
        against: d: `per_token_reference`, `per_token_old`, or `per_token` for the engine that sampled.
        importance: *choice*, None: tokens count as if pi had sampled them, as in GRPO; biased off-policy.
            `per_token` puts that right at each prefix, `per_sequence_product` for the prefixes too.
        cap: largest weight, at least 1; infinity truncates nothing short of `bounded_exp`.

    Raises:
        ValueError: `weight` is negative or not finite, or `cap` below 1.

    References:
        Shao et al., DeepSeekMath, 2024, equation 4. https://arxiv.org/abs/2402.03300.
    """
    require_weight_and_cap(weight, cap)

    def penalty(log_probs: Float[Tensor, "B T"], batch: Batch) -> Float[Tensor, "B T"]:
        terms = weight * estimate(against(log_probs, batch))
        return terms if importance is None else detached_ratio(importance, cap, log_probs, batch) * terms

    return penalty


@piece
def reverse_kl(
    weight: float,
    *,
    against: LogRatio = per_token_reference,
    importance: LogRatio = per_token,
    cap: float = math.inf,
) -> Regulariser:
    r"""The gradient of KL(pi || q), on-policy and off, with the divergence's estimate for a value.

    .. math:: \nabla = w\ \mathrm{sg}\Bigl[\min\Bigl(\frac{\pi}{\mu},\ C\Bigr)\, d\Bigr] \nabla\log\pi,
        \qquad \text{value} = w\, \min(\pi/\mu,\ C)\ k_3(d)

    Unbiased without a cap: on the prefixes that mu sampled by default, on pi's own with
    `importance=per_sequence_product`. Token for token it is the derivative of :math:`(\pi/\mu)\, k_3`
    *through the ratio* (DeepSeek-V3.2's "unbiased KL"), but a ratio that saturates keeps its pull here.

    Args:
        weight: in units of surrogate a nat.
        against: d, of single tokens: `per_token_reference`, `per_token_old` or `per_token`.
        importance: log(pi / mu) of whatever sampled the tokens.
        cap: largest weight, at least 1; finite caps trade bias for variance.

    Raises:
        ValueError: `weight` is negative or not finite, or `cap` below 1.

    References:
        DeepSeek-V3.2, 2025, section 3.1. https://arxiv.org/abs/2512.02556.
    """
    require_weight_and_cap(weight, cap)

    def penalty(log_probs: Float[Tensor, "B T"], batch: Batch) -> Float[Tensor, "B T"]:
        apart = against(log_probs, batch)
        ratio = detached_ratio(importance, cap, log_probs, batch)
        return weight * with_slope(ratio * k3(apart), ratio * apart, apart)

    return penalty


def with_kl_in_reward(batch: Batch, weight: float, *, against: LogRatio = per_token_reference) -> Batch:
    r"""The batch with a price on each action token for how far the policy stands from q (k1).

    .. math:: r_t - w\,\bigl(\log\pi_{old}(a_t \mid s_t) - \log q(a_t \mid s_t)\bigr)

    Credited with rewards to come, an unbiased policy gradient then follows that of
    :math:`J - w\, KL(\pi \| q)` of whole responses, prefixes included. k2 and k3 would not do: here the
    term's value counts, not its derivative, and k3's own derivative would be missing.

    Call it on the batch as taken, once: the price stays through its updates. A group's standard deviation
    divides by the priced rewards' spread, and so rescales the weight.

    Args:
        batch: reads `old_log_probs` and what `against` reads.
        weight: in units of reward a nat.
        against: `per_token_reference`, or `per_token` for the engine that sampled.

    Raises:
        ValueError: `old_log_probs` is absent, or `weight` is negative or not finite.

    References:
        Ouyang et al., InstructGPT, 2022, equation 2. https://arxiv.org/abs/2203.02155.
    """
    require_weight_and_cap(weight, math.inf)
    if batch.old_log_probs is None:
        raise ValueError(
            "with_kl_in_reward needs old_log_probs, got None: score the batch before its first update"
        )
    price = weight * k1(against(batch.old_log_probs.detach(), batch))
    rewards = at_least_single(batch.rewards).where(batch.action_mask, 0.0)
    return dataclasses.replace(batch, rewards=rewards - price)


def with_slope(
    value: Float[Tensor, "B T"], slope: Float[Tensor, "B T"], variable: Float[Tensor, "B T"]
) -> Float[Tensor, "B T"]:
    """`value`, with the gradient `slope` times that of `variable`: the score form with a value that means
    something."""
    return value.detach() + slope.detach() * (variable - variable.detach())


def detached_ratio(
    importance: LogRatio, cap: float, log_probs: Float[Tensor, "B T"], batch: Batch
) -> Float[Tensor, "B T"]:
    """The ratio as a weight: saturated, at most `cap`, without gradient."""
    return bounded_exp(importance(log_probs.detach(), batch).clamp(max=math.log(cap)))


def require_weight_and_cap(weight: float, cap: float) -> None:
    """Refuse a weight that is negative or not finite, and a cap below one.

    Raises:
        ValueError: either.
    """
    if not 0 <= weight < math.inf:
        raise ValueError(f"weight must be finite and not negative, got {weight}")
    if not cap >= 1:
        raise ValueError(f"cap must be at least 1, got {cap}: a bound on the ratio")
