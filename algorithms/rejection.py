"""Rejection: which tokens, or whole rollouts, are too far from what the engine sampled to learn from?

Each is a `Correction` that is zero where it drops and some other correction's weight where it keeps. A
dropped token leaves the numerator. It stays in the divisor unless `Estimator.kept_only` (in verl it leaves
that too), and its reward stays in its group's baseline, as in verl.

`floor` and `ceiling` are bounds on a ratio, as the papers print them, and both are inside. They are not
half-widths around one, as in `trust`: a band that does not hold 1 is refused.
"""

from __future__ import annotations

import math

import torch
from jaxtyping import Bool, Float
from torch import Tensor

from algorithms.correction import Correction, log_mismatch, sequence_ratio, token_ratio, unweighted
from algorithms.piece import piece
from algorithms.ratio import LogRatio, bounded_exp, per_sequence, per_sequence_product, per_token
from algorithms.rollout import Batch


@piece
def token_band(*, floor: float, ceiling: float, weight: Correction = token_ratio) -> Correction:
    r"""Keep a token whose own ratio lies in the band (IcePop).

    .. math:: \rho_t \text{ if } \ell \le \rho_t \le h, \text{ else } 0

    Args:
        floor, ceiling: (0.5, 5.0) in Ring-1T, (0.5, 2.0) in GLM-5.
        weight: of a token that is kept: its ratio; `unweighted` in MIS-PO.

    Raises:
        ValueError: a band without 1 inside.

    References:
        Ling Team, Every Step Evolves (Ring-1T), 2025. https://arxiv.org/abs/2510.18855.
    """
    return _banded(per_token, floor, ceiling, weight)


@piece
def sequence_band(*, floor: float, ceiling: float, weight: Correction = sequence_ratio) -> Correction:
    r"""Keep a rollout whose product of ratios lies in the band (masked importance sampling, seq-MIS).

    .. math:: \textstyle\prod_t \rho_t \text{ if } \ell \le \prod_t \rho_t \le h, \text{ else } 0

    Args:
        floor, ceiling: (0.5, 2.0) in verl's example, (0, 3.0) in TRL.
        weight: of a token that is kept: its rollout's ratio; `unweighted` only rejects.

    Raises:
        ValueError: a band without 1 inside.

    References:
        Liu, Li et al., When Speed Kills Stability, 2025. https://richardli.xyz/rl-collapse.
    """
    return _banded(per_sequence_product, floor, ceiling, weight)


@piece
def geometric_band(*, floor: float, ceiling: float, weight: Correction = unweighted) -> Correction:
    r"""Keep a rollout whose geometric mean of ratios lies in the band (geometric rejection, Geo-RS).

    .. math:: \ell \le \exp\Bigl(\frac{1}{L} \sum_t \log\rho_t\Bigr) \le h

    Args:
        floor, ceiling: far tighter than for a token: (0.999, 1.001) in verl, (0.99, 1.01) in SkyRL.
        weight: of a token that is kept: one; `token_ratio` in NeMo's seq-mask-tis.

    Raises:
        ValueError: a band without 1 inside.
    """
    return _banded(per_sequence, floor, ceiling, weight)


@piece
def k3_below(limit: float, *, weight: Correction = unweighted) -> Correction:
    r"""Keep a rollout whose mean k3 divergence is small (K3-RS).

    .. math:: \frac{1}{L} \sum_t (\rho_t - 1 - \log\rho_t) \le limit

    Unlike a geometric mean, ratios above and below one cannot cancel.

    Args:
        limit: nats a token, positive; 0.01 in verl.
        weight: of a token that is kept.

    Raises:
        ValueError: `limit` is not positive.
    """
    if not limit > 0:
        raise ValueError(f"limit must be positive, got {limit}")

    def correct(batch: Batch) -> Float[Tensor, "B T"]:
        log_rho = log_mismatch(per_token, batch)
        total = (bounded_exp(log_rho) - 1 - log_rho).sum(-1, keepdim=True)
        return _kept(weight, total <= limit * batch.action_tokens[:, None], batch)

    return correct


@piece
def veto(minimum: float) -> Correction:
    r"""Drop a rollout in which any token has :math:`\rho_t` below `minimum`; the others weigh one.

    One token that the trainer would all but never choose spoils whatever follows it. Combine it with a
    weight through `both`.

    Args:
        minimum: in (0, 1); 1e-4 in verl.

    Raises:
        ValueError: `minimum` outside (0, 1).
    """
    if not 0 < minimum < 1:
        raise ValueError(f"minimum must lie in (0, 1), got {minimum}")
    lowest = math.log(minimum)

    def correct(batch: Batch) -> Float[Tensor, "B T"]:
        worst = log_mismatch(per_token, batch).amin(-1, keepdim=True)
        return _kept(unweighted, worst >= lowest + _slack(worst) * lowest, batch)

    return correct


@piece
def kpop(delta: float, *, weight: Correction = unweighted) -> Correction:
    r"""Keep a token whose binary divergence is small in both directions (KPop).

    .. math:: \max\bigl(d(\pi_{old}, \mu),\ d(\mu, \pi_{old})\bigr) \le \delta, \qquad
        d(p, q) = p \log\frac{p}{q} + (1-p) \log\frac{1-p}{1-q}

    The sampled token against all others. A ratio of five between two rare probabilities passes where a
    ratio of two between likely ones does not.

    Args:
        delta: nats, positive.
        weight: *choice*: of a token that is kept, `unweighted`; `token_ratio` weighs as IcePop does.

    Raises:
        ValueError: `delta` is not positive.

    References:
        Guo et al., KPop, 2026. https://ringtech.notion.site/kpop.
    """
    if not delta > 0:
        raise ValueError(f"delta must be positive, got {delta}")

    def correct(batch: Batch) -> Float[Tensor, "B T"]:
        log_rho = log_mismatch(per_token, batch)
        log_q = batch.behaviour_log_probs.where(batch.action_mask, 0.0).detach()
        log_p = log_q + log_rho
        log_rho_of_rest = _log_of_rest(log_p) - _log_of_rest(log_q)
        forward = log_p.exp() * log_rho - log_p.expm1() * log_rho_of_rest
        backward = log_q.expm1() * log_rho_of_rest - log_q.exp() * log_rho
        return _kept(weight, torch.maximum(forward, backward) <= delta, batch)

    return correct


def _banded(level: LogRatio, floor: float, ceiling: float, weight: Correction) -> Correction:
    if not 0 <= floor <= 1 <= ceiling:
        raise ValueError(
            f"floor and ceiling must satisfy 0 <= floor <= 1 <= ceiling, got {floor} and {ceiling}: "
            "bounds, not half-widths"
        )
    low, high = math.log(floor) if floor > 0 else -math.inf, math.log(ceiling)

    def correct(batch: Batch) -> Float[Tensor, "B T"]:
        log_rho = log_mismatch(level, batch)
        slack = _slack(log_rho)
        above = log_rho >= (low - slack * max(1.0, -low) if floor > 0 else low)
        below = log_rho <= (high + slack * max(1.0, high) if ceiling < math.inf else high)
        return _kept(weight, above & below, batch)

    return correct


def _slack(log_ratio: Float[Tensor, "*shape"]) -> float:
    # An edge is inside, and rounding `log` may not decide otherwise.
    return 2 * torch.finfo(log_ratio.dtype).eps


def _kept(weight: Correction, keep: Bool[Tensor, "B _"], batch: Batch) -> Float[Tensor, "B T"]:
    return weight(batch).where(keep, 0.0)


def _log_of_rest(log_prob: Float[Tensor, "B T"]) -> Float[Tensor, "B T"]:
    # log(1 - p). A log-prob of zero has been rounded: some other token stays possible, if barely.
    return (-log_prob.clamp(max=-torch.finfo(log_prob.dtype).tiny).expm1()).log()
