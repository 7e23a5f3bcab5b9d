"""How bad is a number, and where is it so?"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from analysis.audit.finding import SEVERITIES, Severity
from analysis.audit.limits import Pair
from analysis.audit.log import Floats


def above(value: float, limit: Pair) -> Severity | None:
    """None, a warning or a problem, from the limit's values on."""
    if value >= limit[1]:
        return "problem"
    return "warning" if value >= limit[0] else None


def below(value: float, limit: Pair) -> Severity | None:
    """The same for what is bad if it is small."""
    if value <= limit[1]:
        return "problem"
    return "warning" if value <= limit[0] else None


def worse(one: Severity | None, other: Severity | None) -> Severity | None:
    """The more severe of two; None is nothing."""
    both = [severity for severity in (one, other) if severity is not None]
    return max(both, key=SEVERITIES.index, default=None)


def spell(updates: Floats, is_so: NDArray[np.bool_]) -> tuple[float, float]:
    """First and last update at which something is so; it must be so somewhere."""
    at = updates[is_so]
    return float(at[0]), float(at[-1])
