"""Trust regions: what may one token contribute, given how far the policy moved?

A trust region maps a log-ratio, an advantage and a log-prob, all `[B, T]`, to a surrogate `[B, T]`
that is *maximised*. It never sees a model, a mask or a batch. All of them clamp before `exp`, so
log-ratios of any size leave value and gradient finite.

Arguments called `low` and `high`, with or without `eps_`, are half-widths around one, not bounds:
(0.3, 5.0) is the band from 0.7 to 6.0.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from functools import cache
from typing import TypeAlias

import torch
from jaxtyping import Bool, Float
from torch import Tensor

from algorithms.piece import piece
from algorithms.ratio import CLAMP_NATS, bounded_exp

TrustRegion: TypeAlias = Callable[
    [Float[Tensor, "B T"], Float[Tensor, "B T"], Float[Tensor, "B T"]], Float[Tensor, "B T"]
]
"""(log-ratio in nats, advantage, log pi in nats) -> surrogate, to be maximised."""


def importance_weighted(
    log_ratio: Float[Tensor, "B T"],
    advantages: Float[Tensor, "B T"],
    log_probs: Float[Tensor, "B T"],  # noqa: ARG001
) -> Float[Tensor, "B T"]:
    r"""No trust region at all: :math:`\rho A`, with the gradient :math:`\rho A \nabla\log\pi`."""
    return bounded_exp(log_ratio) * advantages


def score(
    log_ratio: Float[Tensor, "B T"],  # noqa: ARG001
    advantages: Float[Tensor, "B T"],
    log_probs: Float[Tensor, "B T"],
) -> Float[Tensor, "B T"]:
    r"""No correction at all: :math:`A \log\pi`, as if stale tokens were fresh. REINFORCE."""
    return advantages * log_probs


@piece
def ppo_clip(low: float, high: float) -> TrustRegion:
    r"""The pessimistic clip of PPO.

    .. math:: \min\bigl(\rho A,\ \mathrm{clip}(\rho,\ 1-\ell,\ 1+h)\, A\bigr)

    Only one bound can bind: the upper one if :math:`A \ge 0`, the lower one otherwise. A clipped token
    keeps its value and loses its gradient. With a negative advantage nothing bounds a large ratio:
    loss and gradient grow with it, up to `CLAMP_NATS`.

    Args:
        low: half-width below one, in (0, 1).
        high: half-width above one; equal to `low` in PPO and GRPO, larger in DAPO ("clip-higher").

    Raises:
        ValueError: `low` or `high` outside its range.

    References:
        Schulman et al., PPO, 2017. https://arxiv.org/abs/1707.06347.
        Yu et al., DAPO, 2025. https://arxiv.org/abs/2503.14476.
    """
    return _clipped(low, high, math.inf)


@piece
def dual_clip(low: float, high: float, *, cap: float = 3.0) -> TrustRegion:
    r"""PPO's clip, with a floor :math:`cA` for negative advantages.

    .. math:: A < 0:\ \max\bigl(\min(\rho A,\ \mathrm{clip}(\rho)\, A),\ c A\bigr)

    Beyond the cap a token keeps the value :math:`cA` and loses its gradient.

    Args:
        low: half-width below one, in (0, 1).
        high: half-width above one.
        cap: largest ratio that a negative advantage may reach, above 1.

    Raises:
        ValueError: `low`, `high` or `cap` outside its range.

    References:
        Ye et al., Mastering Complex Control in MOBA Games, 2020. https://arxiv.org/abs/1912.09729.
    """
    if not cap > 1:
        raise ValueError(f"cap must exceed 1, got {cap}")
    return _clipped(low, high, cap)


def band(eps_low: float, eps_high: float) -> tuple[float, float]:
    """The ratios (1 - eps_low, 1 + eps_high) between which a token is kept.

    Raises:
        ValueError: `eps_low` outside (0, 1], or `eps_high` not positive. Both are epsilons: where a
            paper prints the band (0.7, 6.0), they are 0.3 and 5.0.
    """
    if not 0 < eps_low <= 1:
        raise ValueError(f"eps_low must lie in (0, 1], got {eps_low}: an epsilon, not a bound")
    if not eps_high > 0:
        raise ValueError(f"eps_high must be positive, got {eps_high}: an epsilon, not a bound")
    return 1.0 - eps_low, 1.0 + eps_high


@piece
def inside(eps_low: float, eps_high: float) -> Callable[[Float[Tensor, "B T"]], Bool[Tensor, "B T"]]:
    r"""Which log-ratios lie in the open band :math:`1-\epsilon_l < \rho < 1+\epsilon_h`?

    Compared in log space, in the dtype of the log-ratio. An edge is outside, and two machine epsilons
    around it count as the edge, so that rounding `log` cannot decide for it.
    """
    low, high = band(eps_low, eps_high)
    floor = math.log(low) if low > 0 else -math.inf
    ceiling = math.log(high)

    @cache
    def within(dtype: torch.dtype) -> list[float]:
        """The smallest and the largest number in the band."""
        slack = 2 * torch.finfo(dtype).eps
        above = floor + slack * max(1.0, abs(floor)) if low > 0 else floor
        below = ceiling - slack * max(1.0, ceiling) if ceiling < math.inf else ceiling
        edges = torch.tensor([above, below], dtype=dtype, device="cpu")
        return edges.nextafter(edges.flip(0)).tolist()

    def keep(log_ratio: Float[Tensor, "B T"]) -> Bool[Tensor, "B T"]:
        # One comparison instead of two, which are the slowest steps of all but `exp`.
        lowest, highest = within(log_ratio.dtype)
        return log_ratio.clamp(lowest, highest) == log_ratio

    return keep


@piece
def double_sided_mask(eps_low: float, eps_high: float) -> TrustRegion:
    r"""Weight a token by its ratio inside an open band; drop it outside ("DIS").

    .. math:: \mathrm{sg}[f(\rho)]\, A \log\pi, \qquad
        f(x) = x \text{ if } 1-\epsilon_l < x < 1+\epsilon_h, \text{ else } 0

    The sign of the advantage plays no part. In the band the gradient is
    :math:`\rho A \nabla\log\pi`, that of :math:`\rho A`; a dropped token loses value and gradient alike.
    Detaching f is a choice, for the paper does not say: see `double_sided_mask_undetached`.

    Args:
        eps_low: half-width below one, in (0, 1]; 1 bounds nothing below.
        eps_high: half-width above one, positive and often above 1; infinity bounds nothing above.

    Raises:
        ValueError: `eps_low` or `eps_high` outside its range.

    References:
        Hou et al., SAO, 2026, equations 2 and 3. https://arxiv.org/abs/2607.07508.
    """
    keep = inside(eps_low, eps_high)

    def surrogate(
        log_ratio: Float[Tensor, "B T"],
        advantages: Float[Tensor, "B T"],
        log_probs: Float[Tensor, "B T"],
    ) -> Float[Tensor, "B T"]:
        kept = keep(log_ratio)
        # Finite for every token, so that what is dropped below passes a gradient of zero, not of NaN.
        weight = bounded_exp(log_ratio.detach()).nan_to_num_() * advantages
        del log_ratio  # read no more, and as large as all that follows
        return (weight * log_probs).where(kept, 0.0)

    return surrogate


@piece
def double_sided_mask_undetached(eps_low: float, eps_high: float) -> TrustRegion:
    r"""`double_sided_mask` with the gradient flowing through f too: for ablation only.

    .. math:: f(\rho)\, A \log\pi, \qquad \nabla = \rho A\, (1 + \log\pi)\, \nabla\log\pi

    The objective read literally. Below :math:`\pi = 1/e` its gradient points the wrong way.

    Raises:
        ValueError: `eps_low` or `eps_high` outside its range.
    """
    keep = inside(eps_low, eps_high)

    def surrogate(
        log_ratio: Float[Tensor, "B T"],
        advantages: Float[Tensor, "B T"],
        log_probs: Float[Tensor, "B T"],
    ) -> Float[Tensor, "B T"]:
        kept = keep(log_ratio)
        weight = bounded_exp(log_ratio.where(kept, 0.0))
        return (weight * advantages * log_probs.where(kept, 0.0)).where(kept, 0.0)

    return surrogate


@piece
def clipped_in_nats(floor: float, ceiling: float, *, highest: float = math.inf) -> TrustRegion:
    r"""The same clip by bounds on the log-ratio; `highest` is the log of `dual_clip`'s cap.

    Infinities bound nothing, and with none but them this is `importance_weighted`. A token at a bound
    keeps its gradient.

    Args:
        floor: smallest log-ratio that a negative advantage may reach, at most 0.
        ceiling: largest log-ratio that a positive advantage may reach, at least 0.
        highest: largest log-ratio that a negative advantage may reach, at least 0.

    Raises:
        ValueError: bounds without 0 inside.
    """
    if not floor <= 0 <= min(ceiling, highest):
        raise ValueError(
            f"bounds must satisfy floor <= 0 <= ceiling and highest, got {floor}, {ceiling} and {highest}"
        )
    # Those of `bounded_exp` included: one clamp instead of two.
    lowest, ceiling = -CLAMP_NATS, min(ceiling, CLAMP_NATS)
    floor, highest = max(floor, -CLAMP_NATS), min(highest, CLAMP_NATS)

    def surrogate(
        log_ratio: Float[Tensor, "B T"],
        advantages: Float[Tensor, "B T"],
        log_probs: Float[Tensor, "B T"],  # noqa: ARG001
    ) -> Float[Tensor, "B T"]:
        with torch.no_grad():
            bound = torch.where(
                advantages >= 0, log_ratio.clamp(lowest, ceiling), log_ratio.clamp(floor, highest)
            )
        # Half the cost of the same gradient through both clamps.
        return torch.where(log_ratio == bound, log_ratio, bound).exp_() * advantages

    return surrogate


def _clipped(low: float, high: float, cap: float) -> TrustRegion:
    if not 0 < low < 1:
        raise ValueError(f"low must lie in (0, 1), got {low}: a half-width, not a bound")
    if not high > 0:
        raise ValueError(f"high must be positive, got {high}: a half-width, not a bound")
    return clipped_in_nats(math.log1p(-low), math.log1p(high), highest=math.log(cap))
