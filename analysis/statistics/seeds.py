r"""How many seeds are needed? For an interval of a wanted width, or to tell a difference of a known size.

Means (and means of paired differences) by Student's t: the power of its two-sided test at :math:`n` seeds is
that of the noncentral t with :math:`n - 1` degrees of freedom and noncentrality
:math:`\delta \sqrt n / \sigma`. Shares by Fisher's exact test.

Spread and difference are taken as known. Taken from the few seeds that there are they are rough: of four
seeds, the spread is known to a factor of about two. So an answer is where to begin, not a promise.

References:
    Cohen 1988, Statistical Power Analysis, section 2.4, for the tables; Colas et al. 2018,
    https://arxiv.org/abs/1806.08295, on seeds of reinforcement learning; Casagrande, Pike and Smith 1978,
    https://doi.org/10.2307/2530613, on Fisher's test approximated.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Final

import numpy as np
from scipy import stats

POWER: Final = 0.8
"""Chance that a true difference is found, by convention."""
FEWEST: Final = 2
MOST: Final = 1_000_000
"""Beyond it the answer is: no number of seeds."""
_FAR: Final = 1e4
_LISTED: Final = 60
"""Seeds an arm up to which the outcomes of two arms are listed."""


def half_width(spread: float, n: int, *, confidence: float = 0.95) -> float:
    r"""Half-width of Student's t interval of a mean, :math:`t_{n-1} \sigma / \sqrt n`; unit of `spread`."""
    return float(stats.t.ppf((1 + confidence) / 2, n - 1)) * spread / math.sqrt(n)


def seeds_for_half_width(spread: float, wanted: float, *, confidence: float = 0.95) -> float:
    """Fewest seeds whose interval of a mean is no wider than `wanted` to either side, if they spread so.

    Args:
        spread: standard deviation over seeds (of paired differences, for those).
        wanted: half-width, above 0, in the same unit.

    Returns:
        A whole number, or infinity beyond `MOST`.
    """
    if not (math.isfinite(spread) and spread >= 0 and wanted > 0):
        raise ValueError(f"spread {spread} and half-width {wanted} are not a finite >= 0 and a number > 0")
    return _fewest(lambda n: half_width(spread, n, confidence=confidence) <= wanted)


def t_power(n: int, difference: float, spread: float, *, confidence: float = 0.95) -> float:
    """Chance that the two-sided t test of n (paired) seeds finds a mean of this size."""
    if spread == 0 or difference == 0:
        return float(difference != 0)
    critical = float(stats.t.ppf((1 + confidence) / 2, n - 1))
    # scipy's noncentral t is NaN far out, where the power is 1 to any digit.
    centre = min(abs(difference) / spread * math.sqrt(n), _FAR)
    return float(stats.nct.sf(critical, n - 1, centre) + stats.nct.cdf(-critical, n - 1, centre))


def seeds_to_separate(
    difference: float, spread: float, *, power: float = POWER, confidence: float = 0.95
) -> float:
    """Fewest (pairs of) seeds with which a mean of this size is told from 0 with this power.

    Args:
        difference: true mean, or true mean of paired differences; its sign does not matter.
        spread: standard deviation over seeds, in the same unit.

    Returns:
        A whole number, or infinity where the difference is 0 or `MOST` seeds do not do.
    """
    if not (math.isfinite(difference) and math.isfinite(spread) and spread >= 0):
        raise ValueError(f"difference {difference} and spread {spread} are not finite, the second >= 0")
    return _fewest(lambda n: t_power(n, difference, spread, confidence=confidence) >= power)


def seeds_to_separate_shares(
    share_a: float, share_b: float, *, power: float = POWER, confidence: float = 0.95
) -> float:
    r"""Seeds in each arm with which Fisher's exact test tells two shares apart with this power.

    By listing all outcomes, down or up from the approximation, which stands alone where it asks for many:

    .. math:: n = \frac{A}{4} \left[1 + \sqrt{1 + 4 \delta / A}\right]^2 / \delta^2, \quad
        A = \left[z_{\alpha/2} \sqrt{2 \bar p \bar q} + z_\beta \sqrt{p_a q_a + p_b q_b}\right]^2

    with :math:`\delta = |p_a - p_b|`; infinity where it is 0.
    """
    for share in (share_a, share_b):
        if not 0 <= share <= 1:
            raise ValueError(f"share {share} is not between 0 and 1")
    delta, middle = abs(share_a - share_b), (share_a + share_b) / 2
    if delta == 0:
        return math.inf
    z_alpha, z_beta = float(stats.norm.ppf((1 + confidence) / 2)), float(stats.norm.ppf(power))
    apart = share_a * (1 - share_a) + share_b * (1 - share_b)
    a = (z_alpha * math.sqrt(2 * middle * (1 - middle)) + z_beta * math.sqrt(apart)) ** 2
    n = math.ceil(a / 4 * (1 + math.sqrt(1 + 4 * delta / a)) ** 2 / delta**2) if a > 0 else FEWEST
    if n > _LISTED:
        return float(n)
    while fisher_power(n, share_a, share_b, confidence=confidence) < power:
        n += 1
    while n > FEWEST and fisher_power(n - 1, share_a, share_b, confidence=confidence) >= power:
        n -= 1
    return float(n)


def fisher_power(n: int, share_a: float, share_b: float, *, confidence: float = 0.95) -> float:
    """Chance that Fisher's two-sided exact test finds these shares different, with n seeds in each arm."""
    events = np.arange(n + 1)
    chance = np.outer(stats.binom.pmf(events, n, share_a), stats.binom.pmf(events, n, share_b))
    found = 0.0
    for total in range(2 * n + 1):
        a = np.arange(max(0, total - n), min(n, total) + 1)
        under_equality = stats.hypergeom.pmf(a, 2 * n, n, total)
        # As unlikely as what was seen, or more; equal ones differ in their last digits.
        p_values = [under_equality[under_equality <= seen * (1 + 1e-7)].sum() for seen in under_equality]
        found += float(chance[a, total - a][np.array(p_values) <= 1 - confidence].sum())
    return found


def _fewest(enough: Callable[[int], bool]) -> float:
    """The least n that is enough, by doubling and halving: what is enough stays enough."""
    high = FEWEST
    while not enough(high):
        if high >= MOST:
            return math.inf
        high = min(2 * high, MOST)
    low = high // 2
    while high - low > 1:
        middle = (low + high) // 2
        low, high = (low, middle) if enough(middle) else (middle, high)
    return float(high)
