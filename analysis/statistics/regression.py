"""Fits of one straight line to many weightings of the same runs at once: least squares, truncated, logistic.

Each takes weights of shape (samples, runs) and gives coefficients of shape (samples, columns).
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray
from scipy.special import expit, log_ndtr

Floats = NDArray[np.float64]
Bools = NDArray[np.bool_]
_FEWEST = 1e-9
"""Determinant, relative to the product of the diagonal, below which a design has no one solution."""


def least_squares(design: Floats, y: Floats, weights: Floats) -> Floats:
    r"""Weighted least squares, :math:`(X^T W X)^{-1} X^T W y`.

    Args:
        design: shape (runs, columns).
        y: shape (runs,), or (samples, runs) if it differs by sample.
        weights: shape (samples, runs).
    """
    left = np.einsum("sr,ri,rj->sij", weights, design, design)
    right = np.einsum("sr,ri->si", weights * y, design)
    return solve(left, right)


def truncated_lines(
    design: Floats, y: Floats, ceiling: Floats, weights: Floats, *, rounds: int = 60
) -> Floats:
    r"""Least squares where no y above its ceiling could have been seen: normal errors, maximum likelihood.

    With :math:`u = \theta y - x \delta`, :math:`v = \theta c - x \delta`, :math:`\theta = 1 / \sigma`,
    :math:`\delta = \beta / \sigma`, the sum of :math:`\log \theta - u^2 / 2 - \log \Phi(v)` is maximised by
    Newton steps, turned uphill where the curvature is wrong and halved until they rise. With ceilings far
    above it is least squares.

    Args:
        design: shape (runs, columns).
        y, ceiling: shape (runs,).
        weights: shape (samples, runs).

    Returns:
        Coefficients, shape (samples, columns); NaN where there is no single one.

    References:
        Hausman and Wise 1977, https://doi.org/10.2307/1913683; Orme 1989, on the parameters used here,
        https://doi.org/10.1016/0165-1765(89)90199-1.
    """
    start = least_squares(design, y, weights)
    total = weights.sum(axis=1)
    sigma = np.sqrt((weights * (y - start @ design.T) ** 2).sum(axis=1) / np.maximum(total, 1e-300))
    good = np.isfinite(start).all(axis=1) & (sigma > 1e-9)
    fitted = start.copy()  # a line without scatter is the line, wherever it was cut
    # Columns of the parameters (delta, theta): u and v are linear in them.
    of_u, of_v = np.column_stack([-design, y]), np.column_stack([-design, ceiling])
    p = np.column_stack([start, np.ones(len(start))])[good] / sigma[good, None]
    w, index = weights[good], np.flatnonzero(good)
    height = _truncated_height(p, of_u, of_v, w)
    for _ in range(rounds):
        if len(index) == 0:
            break
        v = p @ of_v.T
        mills = np.exp(-(v**2) / 2 - np.log(np.sqrt(2 * np.pi)) - log_ndtr(v))
        slope = -((w * (p @ of_u.T)) @ of_u) - (w * mills) @ of_v
        slope[:, -1] += w.sum(axis=1) / p[:, -1]
        curve = np.einsum("sr,ri,rj->sij", w * mills * (v + mills), of_v, of_v)
        curve -= np.einsum("sr,ri,rj->sij", w, of_u, of_u)
        curve[:, -1, -1] -= w.sum(axis=1) / p[:, -1] ** 2
        values, axes = np.linalg.eigh(curve)
        step = np.einsum("sij,sj->si", axes, np.einsum("sji,sj->si", axes, slope) / np.abs(values))
        size, rising = np.ones((len(p), 1)), np.zeros(len(p), dtype=bool)
        for _ in range(25):
            with np.errstate(invalid="ignore"):
                tried = _truncated_height(p + size * step, of_u, of_v, w)
            rising = tried >= height
            size = np.where(rising[:, None], size, size / 2)
            if rising.all():
                break
        moved = np.where(rising[:, None], size * step, 0.0)
        p = p + moved
        fitted[index] = p[:, :-1] / p[:, -1:]
        height = np.where(rising, tried, height)
        active = np.abs(moved).max(axis=1) > 1e-7 * np.abs(p).max(axis=1)
        p, w, index, height = p[active], w[active], index[active], height[active]
    return fitted


def _truncated_height(p: Floats, of_u: Floats, of_v: Floats, w: Floats) -> Floats:
    """Log-likelihood; minus infinity where theta is not positive."""
    scale = np.where(p[:, -1] > 0, p[:, -1], 1.0)
    each = np.log(scale)[:, None] - (p @ of_u.T) ** 2 / 2 - log_ndtr(p @ of_v.T)
    return np.where(p[:, -1] > 0, (w * each).sum(axis=1), -np.inf)


def logistic(design: Floats, events: Floats, trials: Floats, *, rounds: int = 200) -> Floats:
    r"""Logistic regression of counts with Firth's penalty, so that separated data have an estimate too.

    Where no cell of a grid is mixed, the likelihood has no maximum. Firth's score,
    :math:`\sum_c x_c (k_c - n_c p_c + h_c (1/2 - p_c))` with the leverages :math:`h_c`, always has a root,
    and its bias at few runs is smaller. Newton steps of bounded length.

    Args:
        design: one row a cell, shape (cells, columns).
        events, trials: shape (samples, cells).

    References:
        Firth 1993, https://doi.org/10.1093/biomet/80.1.27; Heinze and Schemper 2002,
        https://doi.org/10.1002/sim.1047.
    """
    fitted = np.zeros((len(events), design.shape[1]))
    active = np.ones(len(events), dtype=bool)
    for _ in range(rounds):
        k, n = events[active], trials[active]
        p = expit(fitted[active] @ design.T)
        weights = n * p * (1 - p)
        information = np.einsum("sc,ci,cj->sij", weights, design, design)
        inverse = np.linalg.pinv(information)
        leverage = weights * np.einsum("ci,sij,cj->sc", design, inverse, design)
        score = (k - n * p + leverage * (0.5 - p)) @ design
        step = np.einsum("sij,sj->si", inverse, score)
        length = np.abs(step).max(axis=1, keepdims=True)
        step *= np.minimum(1.0, 2.0 / np.maximum(length, 1e-300))
        fitted[active] += step
        active[active] = length[:, 0] > 1e-8
        if not active.any():
            break
    return fitted


def solve(left: Floats, right: Floats) -> Floats:
    """Solutions of many small symmetric systems; NaN for those that have no single one."""
    diagonal = np.prod(np.diagonal(left, axis1=1, axis2=2), axis=1)
    good = np.linalg.det(left) > _FEWEST * np.maximum(diagonal, 1e-300)
    solved = np.full(right.shape, np.nan)
    if good.any():
        solved[good] = np.linalg.solve(left[good], right[good][..., None])[..., 0]
    return solved
