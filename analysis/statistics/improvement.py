r"""Is a run of one arm likely to score higher than a run of another? :math:`P(X > Y) + P(X = Y) / 2`.

It says how often, not by how much: two arms that differ by a hair in every run have a probability of 1. The
estimate is Mann and Whitney's statistic over the number of pairs, its interval Newcombe's fifth method, which
is sane where all of one arm lie above all of the other. Over several strata the estimate is their mean, as in
Agarwal et al., and the intervals are joined by the sum of squares of their half-lengths (*choice*; their
bootstrap claims certainty where runs are fully separated).

The runs of both arms are taken as independent. Common random numbers make them rise and fall together, and
then the interval is wider than it had to be.

References:
    Newcombe 2006, part 2, method 5, https://doi.org/10.1002/sim.2324; Agarwal et al. 2021,
    https://arxiv.org/abs/2108.13264, section 4.3; Zou and Donner 2008, on joining intervals,
    https://doi.org/10.1002/sim.3095.
"""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np
from numpy.typing import ArrayLike
from scipy import optimize, stats

from analysis.statistics.intervals import Interval, finite

METHOD = "Newcombe, of Mann-Whitney"
_EDGE = 1e-9
"""Distance from the estimate at which the search for a bound begins: at 0 and 1 it is a root, too."""


def probability_of_improvement(
    x: Sequence[ArrayLike], y: Sequence[ArrayLike], *, confidence: float = 0.95
) -> Interval:
    """How likely is a run of x to score higher than a run of y of the same stratum? A tie counts one half.

    Args:
        x, y: scores by stratum, in the same order; each of shape (seeds,), at least one seed.

    Raises:
        ValueError: a value is not finite, a stratum is empty, or the strata are not the same.
    """
    pairs = [(finite(a), finite(b)) for a, b in zip(x, y, strict=True)]
    if not pairs or min(min(len(a), len(b)) for a, b in pairs) == 0:
        raise ValueError("a stratum without runs compares nothing")
    found = [_one(len(a), len(b), _share_above(a, b), confidence) for a, b in pairs]
    estimate = math.fsum(share for share, _, _ in found) / len(found)
    return Interval(
        estimate=estimate,
        low=max(0.0, estimate - math.hypot(*(share - low for share, low, _ in found)) / len(found)),
        high=min(1.0, estimate + math.hypot(*(high - share for share, _, high in found)) / len(found)),
        n=sum(len(a) + len(b) for a, b in pairs),
        confidence=confidence,
        method=METHOD,
    )


def _share_above(a: np.ndarray, b: np.ndarray) -> float:
    """Mann and Whitney's U over the number of pairs; `scipy.stats.mannwhitneyu` would work out its p, too."""
    return float((a[:, None] > b).mean() + (a[:, None] == b).mean() / 2)


def _one(m: int, n: int, share: float, confidence: float) -> tuple[float, float, float]:
    r"""The share and its bounds: the roots of :math:`(\theta - \hat\theta)^2 = z^2 V(\theta)`.

    .. math:: V = \frac{\theta (1 - \theta)}{m n} \left[1 + \left(\frac{m + n}{2} - 1\right)
        \left(\frac{1 - \theta}{2 - \theta} + \frac{\theta}{1 + \theta}\right)\right]
    """
    z = float(stats.norm.ppf((1 + confidence) / 2))

    def excess(theta: float) -> float:
        inner = (1 - theta) / (2 - theta) + theta / (1 + theta)
        variance = theta * (1 - theta) / (m * n) * (1 + ((m + n) / 2 - 1) * inner)
        return (theta - share) ** 2 - z**2 * variance

    low = 0.0 if share <= _EDGE else float(optimize.brentq(excess, 0.0, share - _EDGE))
    high = 1.0 if share >= 1 - _EDGE else float(optimize.brentq(excess, share + _EDGE, 1.0))
    return share, low, high
