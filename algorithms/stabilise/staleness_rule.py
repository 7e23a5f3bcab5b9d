r"""The staleness rule: how large may the learning rate be, given the lag?

Lag times learning rate is what counts: :math:`S\,\eta` bounds how far the policy moves while a rollout waits.
The rule of thumb comes with constants of a model and an optimizer, of which only the exponent carries over.
For a linear system with delay the bound is exact.
"""

from __future__ import annotations

import math

LLAMA_PRODUCT = 1.6e-6
"""S times eta at the edge of stability: Llama-3.2 of 1B and 3B, mathematics, S = 8, 16, 32."""


def inverse_lag_rate(lag_updates: float, *, product: float = LLAMA_PRODUCT) -> float:
    r"""Largest stable learning rate at a lag: :math:`\eta_{max} = c / S`; infinite on-policy.

    Args:
        lag_updates: S, the largest lag of the data, in optimizer updates.
        product: c. *Choice*: the default is published for one family of models; measure your own.

    Raises:
        ValueError: a negative lag or a product that is not positive.

    References:
        Song, Xu et al., Staleness-Learning Rate Scaling Laws for Asynchronous RLHF, 2026.
        https://arxiv.org/abs/2607.01083.
    """
    _refuse_negative(lag_updates)
    _refuse_not_positive("product", product)
    return product / lag_updates if lag_updates > 0 else math.inf


def two_constraint_rate(
    lag_updates: float,
    horizon_updates: float,
    *,
    update_norm: float,
    batch_radius: float,
    critical_radius: float,
) -> float:
    r"""What the learning rate must stay well below: data must not age too far, nor the run drift too far.

    .. math:: \min\Bigl\{ \frac{R_{batch}}{S\,G},\ \frac{R_{crit}}{T\,G} \Bigr\}

    Where the horizon binds, the largest learning rate does not depend on the lag.

    Args:
        lag_updates: S, the largest lag of the data.
        horizon_updates: T, learner updates of the whole run.
        update_norm: G, bound on the norm of an update at learning rate one.
        batch_radius: R_batch, distance in weights over which a batch remains usable.
        critical_radius: R_crit, distance in weights beyond which the run collapses.

    Raises:
        ValueError: a negative lag or horizon, or a norm or radius that is not positive.

    References:
        Song, Xu et al., Staleness-Learning Rate Scaling Laws for Asynchronous RLHF, 2026.
        https://arxiv.org/abs/2607.01083.
    """
    _refuse_not_positive("update_norm", update_norm)
    _refuse_not_positive("batch_radius", batch_radius)
    _refuse_not_positive("critical_radius", critical_radius)
    return min(
        inverse_lag_rate(lag_updates, product=batch_radius / update_norm),
        inverse_lag_rate(horizon_updates, product=critical_radius / update_norm),
    )


def critical_rate(lag_updates: int, *, curvature: float = 1.0) -> float:
    r"""Learning rate at which gradient descent on a quadratic, S updates late, stops converging. Exact.

    .. math:: x_{n+1} = x_n - \eta \lambda x_{n-S} \text{ converges iff }
        0 < \eta < \frac{2}{\lambda} \sin\frac{\pi}{2(2S+1)}

    About :math:`\pi / (2S+1)\lambda` for a large lag: one over S again.

    Args:
        lag_updates: S, the same at every update.
        curvature: lambda, the largest eigenvalue of the Hessian.

    Raises:
        ValueError: a negative lag or a curvature that is not positive.

    References:
        Levin, May, A note on difference-delay equations, 1976.
        https://doi.org/10.1016/0040-5809(76)90043-5.
    """
    _refuse_negative(lag_updates)
    _refuse_not_positive("curvature", curvature)
    return 2 * math.sin(math.pi / (2 * (2 * lag_updates + 1))) / curvature


def monotone_rate(lag_updates: int, *, curvature: float = 1.0) -> float:
    r"""Largest learning rate at which the same system approaches its optimum without overshooting. Exact.

    .. math:: \eta = \frac{S^S}{(S+1)^{S+1} \lambda} \approx \frac{1}{e\,S\,\lambda}

    Args:
        lag_updates: S, the same at every update.
        curvature: lambda, the largest eigenvalue of the Hessian.

    Raises:
        ValueError: a negative lag or a curvature that is not positive.

    References:
        Levin, May, A note on difference-delay equations, 1976.
        https://doi.org/10.1016/0040-5809(76)90043-5.
    """
    _refuse_negative(lag_updates)
    _refuse_not_positive("curvature", curvature)
    # (S / (S + 1))^S / (S + 1): the powers themselves overflow beyond S = 143.
    return (lag_updates / (lag_updates + 1)) ** lag_updates / (lag_updates + 1) / curvature


def _refuse_negative(updates: float) -> None:
    if not updates >= 0:
        raise ValueError(f"a count of updates must not be negative, got {updates}")


def _refuse_not_positive(name: str, value: float) -> None:
    if not value > 0:
        raise ValueError(f"{name} must be positive, got {value}")
