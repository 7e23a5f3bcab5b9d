"""Diagnostics: what did the update see, and how much of it moved the policy?

All take raw log-ratios, before any truncation, clip or mask, and return plain floats. Over no tokens
at all a mean is 0.0; only a quantity that is truly undefined is NaN, and says so.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Final, final

import torch
from jaxtyping import Bool, Float, Float64
from torch import Tensor

from algorithms.ratio import bounded_exp

BEYOND: Final = {"p50": 0.5, "p90": 0.1, "p99": 0.01, "p99_9": 0.001}
"""Names of quantiles, and the share of tokens that lies beyond each: points of a survival curve."""


def token_ess(log_ratio: Float[Tensor, "B T"], mask: Bool[Tensor, "B T"]) -> float:
    r"""Kish's effective sample size of the token ratios, as a share of the action tokens.

    .. math:: \frac{(\sum_t \rho_t)^2}{N \sum_t \rho_t^2}

    One if all ratios agree, 1/N if one token outweighs the rest, 0.0 if there is no token.
    """
    return _ess_fraction(log_ratio.detach()[mask].double())


def sequence_ess(log_ratio: Float[Tensor, "B T"], mask: Bool[Tensor, "B T"]) -> float:
    """`token_ess` of the rollouts' exact importance weights: the sum of each row's log-ratios."""
    per_row = log_ratio.detach().where(mask, 0.0).double().sum(-1)
    return _ess_fraction(per_row[mask.any(-1)])


def k1(log_ratio: Float[Tensor, "B T"], mask: Bool[Tensor, "B T"]) -> float:
    r"""KL(mu || pi) in nats a token, unbiased and of either sign: the mean of :math:`-\log\rho`.

    References:
        Schulman, Approximating KL Divergence, 2020. http://joschu.net/blog/kl-approx.html.
    """
    return _mean(-_kept(log_ratio, mask))


def k3(log_ratio: Float[Tensor, "B T"], mask: Bool[Tensor, "B T"]) -> float:
    r"""KL(mu || pi) in nats a token, unbiased and never negative: the mean of :math:`\rho - 1 - \log\rho`."""
    kept = _kept(log_ratio, mask)
    return _mean(bounded_exp(kept) - 1 - kept)


def chi_square(log_ratio: Float[Tensor, "B T"], mask: Bool[Tensor, "B T"]) -> float:
    r"""Chi-square divergence of pi from mu, a token: the mean of :math:`\rho^2` minus one.

    What the variance of an importance weight grows with; 0.0 on-policy and without tokens.
    """
    return _mean(bounded_exp(2 * _kept(log_ratio, mask)) - 1)


def log_ratio_quantiles(log_ratio: Float[Tensor, "B T"], mask: Bool[Tensor, "B T"]) -> dict[str, float]:
    r"""Quantiles of :math:`|\log\rho|` over action tokens, by the names of `BEYOND`; NaN without a token.

    Each is the least value that at most that share of the tokens exceeds, so p99.9 of fewer than a
    thousand tokens is the largest.
    """
    sizes = _kept(log_ratio, mask).abs().sort().values
    n = len(sizes)
    # Rounded: n times .001 may be a hair above the whole number that it is.
    return {
        name: float(sizes[n - 1 - math.floor(round(n * share, 9))]) if n else math.nan
        for name, share in BEYOND.items()
    }


def explained_variance(
    values: Float[Tensor, "B T"], returns: Float[Tensor, "B T"], mask: Bool[Tensor, "B T"]
) -> float:
    r"""Share of the returns' variance that the critic explains, over action tokens.

    .. math:: 1 - \mathrm{Var}(R - V) / \mathrm{Var}(R)

    One for a perfect critic, zero for a constant one, negative for worse. NaN where it is undefined:
    returns that do not vary, or no token.
    """
    target, value = _kept(returns, mask), _kept(values, mask)
    if len(target) == 0 or (target == target[0]).all():
        return math.nan
    return float(1 - (target - value).var(correction=0) / target.var(correction=0))


@final
@dataclass(frozen=True, slots=True, kw_only=True)
class GradientFlow:
    """Shares of all action tokens in one update, each in [0, 1]; all 0.0 if there is none.

    `masked` tokens lost value and gradient although they had an advantage; `clipped` tokens kept
    their value and lost their gradient; `flat` tokens have no gradient for whatever reason, a zero
    advantage among them. With a token's own ratio, flat = masked + clipped + zero.
    """

    positive: float
    """Tokens with a positive advantage; with `negative` and `zero` they make one."""
    negative: float
    zero: float
    """Tokens without advantage. At 1.0 the batch carried no signal at all."""
    masked: float
    masked_positive: float
    masked_negative: float
    clipped: float
    clipped_positive: float
    clipped_negative: float
    flat: float


def gradient_flow(
    surrogate: Float[Tensor, "B T"],
    gradient: Float[Tensor, "B T"],
    advantages: Float[Tensor, "B T"],
    mask: Bool[Tensor, "B T"],
) -> GradientFlow:
    """Which action tokens still move the policy, by the sign of their advantage?

    Args:
        surrogate: `Estimator.surrogate`.
        gradient: of the loss or the surrogate, by log-prob.
        advantages: as passed to the surrogate.
        mask: action tokens; the other entries may hold anything.
    """
    up, down = (advantages > 0) & mask, (advantages < 0) & mask
    still = (gradient == 0) & mask
    dropped = still & (surrogate == 0)
    clipped = still & (surrogate != 0)
    moved = up | down
    counts = {
        "positive": up.sum(),
        "negative": down.sum(),
        "zero": ((advantages == 0) & mask).sum(),
        "masked": (dropped & moved).sum(),
        "masked_positive": (dropped & up).sum(),
        "masked_negative": (dropped & down).sum(),
        "clipped": (clipped & moved).sum(),
        "clipped_positive": (clipped & up).sum(),
        "clipped_negative": (clipped & down).sum(),
        "flat": still.sum(),
    }
    # Read together: a device is waited for once.
    n, *known = torch.stack([mask.sum(), *counts.values()]).tolist()
    return GradientFlow(**{name: count / max(n, 1) for name, count in zip(counts, known, strict=True)})


def _kept(terms: Float[Tensor, "B T"], mask: Bool[Tensor, "B T"]) -> Float64[Tensor, " n"]:
    return terms.detach()[mask].double()


def _mean(terms: Float64[Tensor, " n"]) -> float:
    return float(terms.mean()) if len(terms) else 0.0


def _ess_fraction(log_weights: Float64[Tensor, " n"]) -> float:
    if len(log_weights) == 0:
        return 0.0
    # In log space: a sequence weight of e^800 overflows even double precision.
    total = torch.logsumexp(log_weights, 0)
    of_squares = torch.logsumexp(2 * log_weights, 0)
    return float((2 * total - of_squares).exp() / len(log_weights))
