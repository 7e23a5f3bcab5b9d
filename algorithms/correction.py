r"""Corrections: how much may a token weigh that another engine, or older weights, sampled?

A correction maps a batch to a detached weight of each token, made of

.. math:: \rho_t = \frac{\pi_{old}(a_t \mid s_t)}{\mu(a_t \mid s_t)}

the trainer's weights when it took the batch over the engine that sampled. It multiplies the surrogate of a
loss whose own ratio is :math:`\pi / \pi_{old}` (`ratio.per_token_old`), so that the two make
:math:`\pi / \mu`. It reads no log-prob under training: the weights stay as they are through every update on
the batch. All compare in log space, saturate with `bounded_exp` and are exactly zero off the action tokens.

A weight of zero drops a token from the numerator. It stays in the divisor unless `Estimator.kept_only`, and
its reward stays in its group's baseline, as in verl.

`floor` and `ceiling` are bounds on a ratio, as the papers print them, and both are inside. They are not
half-widths around one, as in `trust`: a band that does not hold 1 is refused.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import TypeAlias

import torch
from jaxtyping import Bool, Float
from torch import Tensor

from algorithms.ratio import LogRatio, bounded_exp, per_sequence, per_sequence_product, per_token
from algorithms.rollout import Batch

Correction: TypeAlias = Callable[[Batch], Float[Tensor, "B T"]]
"""Batch -> detached weight of each token, never negative; zero drops the token."""


def unweighted(batch: Batch) -> Float[Tensor, "B T"]:
    """Every action token weighs one: no correction, and the weight of what a rejection keeps."""
    return batch.action_mask.to(batch.behaviour_log_probs.dtype)


def token_ratio(batch: Batch) -> Float[Tensor, "B T"]:
    r"""Each token's own ratio, without bound: :math:`\rho_t`.

    Raises:
        ValueError: `old_log_probs` is absent; so does every function here that reads it.
    """
    return _ratio(per_token, batch)


def sequence_ratio(batch: Batch) -> Float[Tensor, "B T"]:
    r"""The rollout's ratio at each of its tokens, without bound: :math:`\prod_t \rho_t`."""
    return _ratio(per_sequence_product, batch)


def token_truncated(cap: float) -> Correction:
    r"""Truncated importance sampling by token (token-TIS): :math:`\min(\rho_t, C)`.

    Args:
        cap: C, positive: 2 in most trainers, 1.2 to 5 in some. Infinity leaves `token_ratio`; below one
            even an on-policy token is scaled.

    Raises:
        ValueError: `cap` is not positive.

    References:
        Yao et al., Your Efficient RL Framework Secretly Brings You Off-Policy RL Training, 2025.
        https://fengyao.notion.site/off-policy-rl.
        Espeholt et al., IMPALA, 2018. https://arxiv.org/abs/1802.01561.
    """
    return _truncated(token_ratio, cap)


def sequence_truncated(cap: float) -> Correction:
    r"""Truncated importance sampling by rollout (seq-TIS): :math:`\min\bigl(\prod_t \rho_t, C\bigr)`.

    Truncated after the product, so a long rollout is either near C or near zero.

    Args:
        cap: C, positive; 2 in verl.

    Raises:
        ValueError: `cap` is not positive.

    References:
        Liu, Li et al., When Speed Kills Stability, 2025. https://richardli.xyz/rl-collapse.
    """
    return _truncated(sequence_ratio, cap)


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
        log_rho = _log_rho(per_token, batch)
        total = (bounded_exp(log_rho) - 1 - log_rho).sum(-1, keepdim=True)
        return _kept(weight, total <= limit * batch.action_tokens[:, None], batch)

    return correct


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
        worst = _log_rho(per_token, batch).amin(-1, keepdim=True)
        return _kept(unweighted, worst >= lowest, batch)

    return correct


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
    """
    if not delta > 0:
        raise ValueError(f"delta must be positive, got {delta}")

    def correct(batch: Batch) -> Float[Tensor, "B T"]:
        log_rho = _log_rho(per_token, batch)
        log_q = batch.behaviour_log_probs.where(batch.action_mask, 0.0).detach()
        log_p = log_q + log_rho
        log_rho_of_rest = _log_of_rest(log_p) - _log_of_rest(log_q)
        forward = log_p.exp() * log_rho - log_p.expm1() * log_rho_of_rest
        backward = log_q.expm1() * log_rho_of_rest - log_q.exp() * log_rho
        return _kept(weight, torch.maximum(forward, backward) <= delta, batch)

    return correct


def both(*corrections: Correction) -> Correction:
    """Every correction at once: weights multiply, and a token lives that none of them drops.

    Raises:
        ValueError: no correction at all.
    """
    if not corrections:
        raise ValueError("both needs at least one correction, got none")

    def correct(batch: Batch) -> Float[Tensor, "B T"]:
        product = corrections[0](batch)
        for other in corrections[1:]:
            product = product * other(batch)
        return product

    return correct


def _log_rho(level: LogRatio, batch: Batch) -> Float[Tensor, "B T"]:
    if batch.old_log_probs is None:
        raise ValueError(
            "a correction needs old_log_probs, got None: score the batch before its first update"
        )
    return level(batch.old_log_probs.detach(), batch)


def _ratio(level: LogRatio, batch: Batch) -> Float[Tensor, "B T"]:
    return bounded_exp(_log_rho(level, batch)).where(batch.action_mask, 0.0)


def _truncated(weight: Correction, cap: float) -> Correction:
    if not cap > 0:
        raise ValueError(f"cap must be positive, got {cap}")
    return lambda batch: weight(batch).clamp(max=cap)


def _banded(level: LogRatio, floor: float, ceiling: float, weight: Correction) -> Correction:
    if not 0 <= floor <= 1 <= ceiling:
        raise ValueError(
            f"floor and ceiling must satisfy 0 <= floor <= 1 <= ceiling, got {floor} and {ceiling}: "
            "bounds, not half-widths"
        )
    low, high = math.log(floor) if floor > 0 else -math.inf, math.log(ceiling)

    def correct(batch: Batch) -> Float[Tensor, "B T"]:
        log_rho = _log_rho(level, batch)
        # An edge is inside, and rounding `log` may not decide otherwise.
        slack = 2 * torch.finfo(log_rho.dtype).eps
        above = log_rho >= (low - slack * max(1.0, -low) if floor > 0 else low)
        below = log_rho <= (high + slack * max(1.0, high) if ceiling < math.inf else high)
        return _kept(weight, above & below, batch)

    return correct


def _kept(weight: Correction, keep: Bool[Tensor, "B _"], batch: Batch) -> Float[Tensor, "B T"]:
    return weight(batch).where(keep, 0.0)


def _log_of_rest(log_prob: Float[Tensor, "B T"]) -> Float[Tensor, "B T"]:
    # log(1 - p). A log-prob of zero has been rounded: some other token stays possible, if barely.
    return (-log_prob.clamp(max=-torch.finfo(log_prob.dtype).tiny).expm1()).log()
