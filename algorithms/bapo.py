r"""BAPO: do good and bad tokens have an equal say in this batch?

PPO's clip silences good tokens that became likely and bad ones that became rare. Bounds searched in every
batch let fewer of the bad in, or more of the good, until good tokens weigh enough.
"""

from __future__ import annotations

import dataclasses
import itertools
import math
from collections.abc import Callable, Iterable, Sequence
from typing import TypeAlias

from jaxtyping import Bool, Float
from torch import Tensor

from algorithms.advantage import Advantage, group_standardised
from algorithms.aggregate import Aggregate, token_mean
from algorithms.estimator import Adapt, Estimator
from algorithms.ratio import LogRatio, bounded_exp, per_token_old
from algorithms.rollout import Batch
from algorithms.trust import TrustRegion, clipped_in_nats

Bounds: TypeAlias = tuple[float, float]
"""Two ratios, the lower first; not half-widths."""

SearchOrder: TypeAlias = Callable[[Sequence[float], Sequence[float]], Iterable[Bounds]]
"""(lower bounds, upper bounds), each from first to last -> the pairs to try, in order."""

_ROUNDING = 1e-6
"""Centred advantages sit at a balance of one exactly: rounding must not decide there."""


def low_then_high(lows: Sequence[float], highs: Sequence[float]) -> list[Bounds]:
    """The lower bound up to its last value, then the upper one: bad tokens leave before good ones come in."""
    return [(low, highs[0]) for low in lows] + [(lows[-1], high) for high in highs[1:]]


def high_then_low(lows: Sequence[float], highs: Sequence[float]) -> list[Bounds]:
    """The upper bound up to its last value, then the lower one."""
    return [(lows[0], high) for high in highs] + [(low, highs[-1]) for low in lows[1:]]


def contributions(
    log_ratio: Float[Tensor, "B T"],
    advantages: Float[Tensor, "B T"],
    mask: Bool[Tensor, "B T"],
    *,
    low: float,
    high: float,
    cap: float = math.inf,
) -> tuple[float, float]:
    r"""What good and bad tokens weigh, clipped ones left out.

    .. math:: S_+ = \sum_{A > 0,\ r \le h} r A, \qquad S_- = \sum_{A < 0,\ \ell \le r \le c} r\, |A|

    Args:
        log_ratio: nats.
        low, high: bounds on the ratio of bad and of good tokens.
        cap: largest ratio of a bad token that the dual clip leaves its gradient.

    Returns:
        Both sums, in units of advantage, neither negative.
    """
    weight = bounded_exp(log_ratio.double()) * advantages.double()
    good = mask & (advantages > 0) & (log_ratio <= math.log(high))
    bad = mask & (advantages < 0) & (log_ratio >= math.log(low)) & (log_ratio <= math.log(cap))
    return float(weight[good].sum()), float(-weight[bad].sum())


def bapo(
    *,
    low: Bounds = (0.6, 0.8),
    high: Bounds = (1.2, 2.0),
    step_low: float = 0.05,
    step_high: float = 0.05,
    target: float = 1.0,
    cap: float = 3.0,
    order: SearchOrder = low_then_high,
    log_ratio: LogRatio = per_token_old,
    advantage: Advantage = group_standardised,
    aggregate: Aggregate = token_mean,
) -> Estimator:
    r"""PPO's clip, dual clip included, with the first bounds at which good tokens weigh enough.

    .. math:: S_+ \ge target \cdot S_-

    The search starts at the first bounds, (0.6, 1.2), raises the lower one in steps to its last value,
    then the upper one, and stops at the first pair that reaches the target; if none does, at the last
    pair, (0.8, 2.0). A batch without bad tokens stops at once.

    Args:
        low, high: first and last value of either bound, ratios; the public script has (0.8, 0.95) and
            (1.2, 2.0).
        step_low, step_high: the last step may be shorter.
        target: :math:`S_+ / S_-`; the script has 0.5. A share s of the sum of both is the target s / (1 - s).
        cap: the dual clip's, as in `trust.dual_clip`; infinity for none.
        order: *choice*, `low_then_high`; `high_then_low` lets good tokens in before bad ones leave.
        log_ratio: `per_token_old`; `per_token` bounds the distance from the engine.
        advantage, aggregate: *choice*, GRPO's advantage and the token mean.

    *Choice*: S counts tokens that keep their gradient (`contributions`). Were the value of a clipped token
    counted too, a higher lower bound would make bad tokens weigh more. *Choice*: the search is over the
    whole batch of an update, not over what one call of a loss sees.

    Raises:
        ValueError: an option outside its range.

    References:
        Xi et al., BAPO, 2025. https://arxiv.org/abs/2510.18927.
    """
    if not 0 < low[0] <= low[1] < 1:
        raise ValueError(f"low must satisfy 0 < first <= last < 1, got {low}: bounds, not half-widths")
    if not 1 < high[0] <= high[1] < math.inf:
        raise ValueError(f"high must satisfy 1 < first <= last, got {high}: bounds, not half-widths")
    for name, step in (("step_low", step_low), ("step_high", step_high)):
        if not step > 0:
            raise ValueError(f"{name} must be positive, got {step}")
    if not 0 <= target < math.inf:
        raise ValueError(f"target must be finite and not negative, got {target}")
    if not cap > 1:
        raise ValueError(f"cap must exceed 1, got {cap}")
    pairs = list(order(_steps(low, step_low), _steps(high, step_high)))
    return Estimator(
        advantage=advantage,
        log_ratio=log_ratio,
        trust=_clip(pairs[0], cap),
        aggregate=aggregate,
        adapt=_balanced(pairs, target, cap),
    )


def _balanced(pairs: Sequence[Bounds], target: float, cap: float) -> Adapt:
    def adapt(
        estimator: Estimator, log_probs: Float[Tensor, "B T"], batch: Batch, advantages: Float[Tensor, "B T"]
    ) -> Estimator:
        log_ratio = estimator.log_ratio(log_probs, batch)

        def enough(bounds: Bounds) -> bool:
            good, bad = contributions(
                log_ratio, advantages, batch.action_mask, low=bounds[0], high=bounds[1], cap=cap
            )
            return good >= target * bad * (1 - _ROUNDING)

        chosen = next(filter(enough, pairs), pairs[-1])
        return dataclasses.replace(estimator, trust=_clip(chosen, cap))

    adapt.__name__ = f"balanced(target={target:g})"
    return adapt


def _clip(bounds: Bounds, cap: float) -> TrustRegion:
    return clipped_in_nats(math.log(bounds[0]), math.log(bounds[1]), highest=math.log(cap))


def _steps(ends: Bounds, step: float) -> list[float]:
    first, last = ends
    # A sum of steps that misses `last` by rounding is no step of its own.
    inner = itertools.takewhile(
        lambda value: value < last - 1e-9 * step, (first + k * step for k in itertools.count())
    )
    return [*inner, last]
