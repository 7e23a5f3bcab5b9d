"""Is this value of a log a number? Loggers write numbers as JSON, as text, as booleans, and as nothing."""

from __future__ import annotations

import math
from typing import Final

LARGEST: Final = 1e30
"""Beyond it a quantity of training is broken; its cubes and squares are still finite. *Choice*."""
_NOTHING: Final = frozenset({"", "none", "null", "na", "n/a", "-"})


def number(value: object) -> float | None:
    """A float, which may be NaN or infinite if that was recorded; None if nothing, or no number, was.

    A whole number beyond the range of a float is infinite, as it would be to the system that made it.
    """
    if isinstance(value, str):
        text = value.strip()
        if text.lower() in _NOTHING or "_" in text:
            return None
        try:
            return float(text)
        except ValueError:
            return None
    if isinstance(value, int | float):
        try:
            return float(value)
        except OverflowError:
            return math.inf if float(value > 0) else -math.inf
    return None


def is_sound(value: float) -> bool:
    """Neither NaN nor so large that it can only be a fault."""
    return abs(value) <= LARGEST


def numbers_of(value: object) -> list[float] | None:
    """A list of numbers, NaN where there is none; None if the value is no list, or holds something else."""
    if not isinstance(value, list | tuple) or not value:
        return None
    found = []
    for item in value:
        one = math.nan if item is None else number(item)
        if one is None:
            return None
        found.append(one)
    return found
