"""One comparison: what was expected, what was simulated, and whether that is near enough."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import final


@final
@dataclass(frozen=True, slots=True, kw_only=True)
class Row:
    """A number beside the number that it should be."""

    about: str
    """What is compared, with the settings that matter."""
    source: str
    """Where the expected number comes from."""
    expected: float
    simulated: float
    half_width: float = math.nan
    """Of the simulated mean's 95 % interval; NaN where one run gives no interval."""
    wanted: str
    """The criterion, in words."""
    holds: bool
    n: int
    """Observations behind the simulated number: updates, rollouts or waves."""

    @property
    def error(self) -> float:
        """Relative to what was expected; NaN where that is zero."""
        return self.simulated / self.expected - 1 if self.expected else math.nan


def within(
    tolerance: float,
    *,
    about: str,
    source: str,
    expected: float,
    simulated: float,
    n: int,
    half_width: float = math.nan,
) -> Row:
    """Holds iff the relative error is at most `tolerance`."""
    return Row(
        about=about,
        source=source,
        expected=expected,
        simulated=simulated,
        half_width=half_width,
        wanted=f"within {100 * tolerance:g} %",
        holds=abs(simulated - expected) <= tolerance * abs(expected),
        n=n,
    )


def inside_interval(
    *, about: str, source: str, expected: float, simulated: float, half_width: float, n: int
) -> Row:
    """Holds iff the 99.9 % interval of the simulated mean covers the expected number.

    Args:
        half_width: of the 95 % interval. A true statement fails one time in a thousand.
    """
    wide = half_width * 3.29 / 1.96
    return Row(
        about=about,
        source=source,
        expected=expected,
        simulated=simulated,
        half_width=half_width,
        wanted="inside the 99.9 % interval",
        holds=abs(simulated - expected) <= wide,
        n=n,
    )


def known_to_miss(
    low: float, high: float, *, about: str, source: str, expected: float, simulated: float, n: int
) -> Row:
    """Holds iff the relative error lies between `low` and `high`: the formula misses as it is known to."""
    return Row(
        about=about,
        source=source,
        expected=expected,
        simulated=simulated,
        wanted=f"known to miss, {100 * low:g} to {100 * high:g} %",
        holds=low <= abs(simulated / expected - 1) <= high,
        n=n,
    )


def above(*, about: str, source: str, expected: float, simulated: float, n: int) -> Row:
    """Holds iff the simulated number is the larger of the two: an order, not a size."""
    return Row(
        about=about,
        source=source,
        expected=expected,
        simulated=simulated,
        wanted="above",
        holds=simulated > expected,
        n=n,
    )
