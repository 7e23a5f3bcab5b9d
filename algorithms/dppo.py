r"""Divergence PPO: a token is kept by how far its *probability* moved, not by its ratio.

A rare token may double or halve freely; a likely one may not. Trust regions see log-probs, so the
probability under the behaviour policy is :math:`\mu = \exp(\log\pi - \log\rho)`: use them with `per_token`.
"""

from __future__ import annotations

import math
from collections.abc import Callable

import torch
from jaxtyping import Bool, Float
from torch import Tensor

from algorithms.advantage import Advantage, group_standardised
from algorithms.aggregate import Aggregate, token_mean
from algorithms.estimator import Estimator
from algorithms.penalty import squared_log_ratio
from algorithms.piece import piece
from algorithms.ratio import bounded_exp, per_token
from algorithms.trust import TrustRegion

_Moved = Callable[[Float[Tensor, "B T"], Float[Tensor, "B T"]], Float[Tensor, "B T"]]


@piece
def tv_mask(delta: float, *, cap: float = 20.0) -> TrustRegion:
    r"""Keep a token until its probability has moved by delta in the direction that its advantage pushes.

    .. math:: \mathrm{sg}[\min(\rho, C)]\, A \log\pi \quad\text{if}\quad
        \pi - \mu \le \delta\ (A > 0),\quad \pi - \mu \ge -\delta\ (A \le 0)

    The difference is the total variation between the two policies, each seen as "this token or another".

    Args:
        delta: largest move of a probability, in (0, 1]; 1 keeps every token.
        cap: largest weight, at least 1; infinity truncates nothing.

    Raises:
        ValueError: `delta` or `cap` outside its range.

    References:
        DPPO, 2026. https://arxiv.org/abs/2602.04879.
    """
    if not 0 < delta <= 1:
        raise ValueError(f"delta must lie in (0, 1], got {delta}: a difference of probabilities")
    return _divergence_mask(lambda pi, mu: (pi - mu).abs(), delta, cap)


@piece
def kl_mask(delta: float, *, cap: float = 20.0) -> TrustRegion:
    r"""`tv_mask` with the binary divergence in place of the difference.

    .. math:: \mu \log\frac{\mu}{\pi} + (1-\mu) \log\frac{1-\mu}{1-\pi} \le \delta

    A token that moved against its advantage's push is kept however far it is.

    Args:
        delta: largest divergence, in nats, positive; infinity keeps every token.
        cap: largest weight, at least 1; infinity truncates nothing.

    Raises:
        ValueError: `delta` or `cap` outside its range.

    References:
        DPPO, 2026. https://arxiv.org/abs/2602.04879.
    """
    if not delta > 0:
        raise ValueError(f"delta must be positive, got {delta}: a divergence in nats")
    return _divergence_mask(_binary_kl, delta, cap)


def dppo_tv(
    *,
    delta: float = 0.2,
    cap: float = 20.0,
    pull: float = 0.0,
    advantage: Advantage = group_standardised,
    aggregate: Aggregate = token_mean,
) -> Estimator:
    """DPPO with total variation: a group for a baseline, the move of a probability for trust.

    Args:
        delta: largest move of a probability.
        cap: *choice*, 20: largest weight; verl's configuration says 3. Infinity is prime-rl's, whose ratio
            is not detached (its gradient is the same).
        pull: *choice*, 0: weight of the squared log-ratio of all tokens, kept or not; prime-rl has 1e-3.
        advantage, aggregate: *choice*, GRPO's advantage and the token mean.

    Raises:
        ValueError: an option outside its range.

    References:
        DPPO, 2026. https://arxiv.org/abs/2602.04879.
    """
    return _dppo(tv_mask(delta, cap=cap), pull, advantage, aggregate)


def dppo_kl(
    *,
    delta: float = 0.05,
    cap: float = 20.0,
    pull: float = 0.0,
    advantage: Advantage = group_standardised,
    aggregate: Aggregate = token_mean,
) -> Estimator:
    """DPPO with the binary divergence: a group for a baseline, that divergence for trust.

    Args:
        delta: *choice*, 0.05: largest divergence, in nats.
        cap, pull, advantage, aggregate: as for `dppo_tv`.

    Raises:
        ValueError: an option outside its range.

    References:
        DPPO, 2026. https://arxiv.org/abs/2602.04879.
    """
    return _dppo(kl_mask(delta, cap=cap), pull, advantage, aggregate)


def _dppo(trust: TrustRegion, pull: float, advantage: Advantage, aggregate: Aggregate) -> Estimator:
    return Estimator(
        advantage=advantage,
        log_ratio=per_token,
        trust=trust,
        aggregate=aggregate,
        regularisers=(squared_log_ratio(pull, per_token),) if pull else (),
    )


def _divergence_mask(divergence: _Moved, delta: float, cap: float) -> TrustRegion:
    if not cap >= 1:
        raise ValueError(f"cap must be at least 1, got {cap}: a bound on the ratio")
    highest = math.log(cap)

    def keep(
        log_ratio: Float[Tensor, "B T"], advantages: Float[Tensor, "B T"], log_probs: Float[Tensor, "B T"]
    ) -> Bool[Tensor, "B T"]:
        pi = log_probs.clamp(max=0.0).exp()
        mu = (log_probs - log_ratio).clamp(max=0.0).exp()
        pushed = torch.where(advantages > 0, pi > mu, pi < mu)
        return ~pushed | (divergence(pi, mu) <= delta)

    def surrogate(
        log_ratio: Float[Tensor, "B T"],
        advantages: Float[Tensor, "B T"],
        log_probs: Float[Tensor, "B T"],
    ) -> Float[Tensor, "B T"]:
        kept = keep(log_ratio.detach(), advantages, log_probs.detach())
        weight = bounded_exp(log_ratio.clamp(max=highest)).detach()
        return (weight * advantages * log_probs.where(kept, 0.0)).where(kept, 0.0)

    return surrogate


def _binary_kl(pi: Float[Tensor, "B T"], mu: Float[Tensor, "B T"]) -> Float[Tensor, "B T"]:
    tiny = torch.finfo(pi.dtype).tiny
    this = mu * (mu.clamp(min=tiny) / pi.clamp(min=tiny)).log()
    other = (1 - mu) * ((1 - mu).clamp(min=tiny).log() - (1 - pi).clamp(min=tiny).log())
    return this + other
