r"""Trust regions of the score form :math:`\mathrm{sg}[w(\rho)]\, A \log\pi`.

The ratio decides how much a token weighs, not through which path its gradient flows.

The weight is detached. Were it not, the gradient would be :math:`w A\,(1 + \log\pi)\nabla\log\pi` inside the
band and would change sign below :math:`\pi = 1/e`. Values mean little here (they scale with the log-prob);
gradients are what these functions are for.
"""

from __future__ import annotations

import math
from collections.abc import Callable

from jaxtyping import Float
from torch import Tensor

from algorithms.piece import piece
from algorithms.ratio import CLAMP_NATS, bounded_exp
from algorithms.trust import TrustRegion, band


@piece
def truncated_weight(*, floor: float = 0.0, cap: float = math.inf) -> TrustRegion:
    r"""REINFORCE weighted by a truncated ratio: no token loses its gradient.

    .. math:: \mathrm{sg}[\mathrm{clip}(\rho, f, C)]\, A \log\pi

    :math:`C \to \infty` is plain importance weighting; :math:`f = C = 1` is no correction at all.

    Args:
        floor: smallest weight, a bound on the ratio (not a half-width), in [0, 1].
        cap: largest weight, a bound on the ratio (not a half-width), at least 1.

    Raises:
        ValueError: `floor` or `cap` outside its range.

    References:
        Espeholt et al., IMPALA, 2018. https://arxiv.org/abs/1802.01561.
    """
    if not 0 <= floor <= 1:
        raise ValueError(f"floor must lie in [0, 1], got {floor}: a bound on the ratio")
    if not cap >= 1:
        raise ValueError(f"cap must be at least 1, got {cap}: a bound on the ratio")
    # The bounds of `bounded_exp` are among them: one clamp instead of two.
    lowest = max(math.log(floor) if floor > 0 else -math.inf, -CLAMP_NATS)
    highest = min(math.log(cap), CLAMP_NATS)

    def weight(log_ratio: Float[Tensor, "B T"], advantages: Float[Tensor, "B T"]) -> Float[Tensor, "B T"]:  # noqa: ARG001
        return log_ratio.clamp(lowest, highest).exp_()

    return _weighted(weight)


@piece
def clipped_weight(eps_low: float, eps_high: float) -> TrustRegion:
    r"""CISPO's clipped importance weight: `truncated_weight` with the clip's half-widths.

    .. math:: \mathrm{sg}[\mathrm{clip}(\rho,\ 1-\epsilon_l,\ 1+\epsilon_h)]\, A \log\pi

    Outside the band a token weighs what the edge weighs; PPO's clip would silence it.

    Args:
        eps_low: half-width below one, in (0, 1]; 1 bounds nothing below.
        eps_high: half-width above one, positive; infinity bounds nothing above.

    Raises:
        ValueError: `eps_low` or `eps_high` outside its range.

    References:
        MiniMax-M1, 2025, equations 4 and 5. https://arxiv.org/abs/2506.13585.
    """
    floor, cap = band(eps_low, eps_high)
    return truncated_weight(floor=floor, cap=cap)


def tapered_off_policy(
    log_ratio: Float[Tensor, "B T"], advantages: Float[Tensor, "B T"], log_probs: Float[Tensor, "B T"]
) -> Float[Tensor, "B T"]:
    r"""TOPR's taper: good tokens weigh one, bad ones their ratio, at most one.

    .. math:: \bigl(\mathbb{1}[A \ge 0] + \mathbb{1}[A < 0]\ \mathrm{sg}[\min(\rho, 1)]\bigr)\, A \log\pi

    A bad response that the policy already avoids pushes no further, so nothing diverges off-policy. The
    `log_ratio` decides the form: `per_sequence_product` is the paper's, `per_token` is ROLL's.

    References:
        Le Roux et al., TOPR, 2025. https://arxiv.org/abs/2503.14286.
    """
    return _tapered(log_ratio, advantages, log_probs)


@piece
def soft_weight(
    *, k_good: float = 2.0, lam_good: float = 3.0, k_bad: float = 3.0, lam_bad: float = 2.0
) -> TrustRegion:
    r"""VESPO's variational weight: rises with the ratio like a power, then falls exponentially.

    .. math:: \mathrm{sg}[\phi(w)]\, A \log\pi, \qquad \phi(w) = e^{\lambda}\, w^{k}\, e^{-\lambda w}, \quad
        \phi(1) = 1

    w is the ratio of the whole rollout: pair it with `per_sequence_product`. As in TRL, w is first cut to
    :math:`[10^{-8}, e^{20}]`.

    Args:
        k_good, lam_good: k and lambda where the advantage is not negative.
        k_bad, lam_bad: k and lambda where it is.

    Raises:
        ValueError: a parameter that is not positive and finite.

    References:
        VESPO, 2026. https://arxiv.org/abs/2602.10693.
    """
    named = {"k_good": k_good, "lam_good": lam_good, "k_bad": k_bad, "lam_bad": lam_bad}
    for name, value in named.items():
        if not 0 < value < math.inf:
            raise ValueError(f"{name} must be positive and finite, got {value}")

    def weight(log_ratio: Float[Tensor, "B T"], advantages: Float[Tensor, "B T"]) -> Float[Tensor, "B T"]:
        log_w = log_ratio.clamp(math.log(1e-8), 20.0)
        good = lam_good + k_good * log_w - lam_good * log_w.exp()
        bad = lam_bad + k_bad * log_w - lam_bad * log_w.exp()
        # Both exponents are bounded above, at w = k / lambda; far out the weight is exactly zero.
        return good.where(advantages >= 0, bad).exp()

    return _weighted(weight)


def _weighted(
    weight: Callable[[Float[Tensor, "B T"], Float[Tensor, "B T"]], Float[Tensor, "B T"]],
) -> TrustRegion:
    def surrogate(
        log_ratio: Float[Tensor, "B T"],
        advantages: Float[Tensor, "B T"],
        log_probs: Float[Tensor, "B T"],
    ) -> Float[Tensor, "B T"]:
        # Detached on the way in: no step of the weight is recorded.
        return weight(log_ratio.detach(), advantages) * advantages * log_probs

    return surrogate


def _taper(log_ratio: Float[Tensor, "B T"], advantages: Float[Tensor, "B T"]) -> Float[Tensor, "B T"]:
    return bounded_exp(log_ratio.clamp(max=0.0).where(advantages < 0, 0.0))


_tapered = _weighted(_taper)
