"""What is the mean of a simulated series, and how sure is it?"""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray
from scipy.stats import t as student_t


def settled(values: Sequence[float] | NDArray[np.float64], start_share: float = 0.25) -> NDArray[np.float64]:
    """The series without its start, in which the pipeline still fills."""
    kept = np.asarray(values, dtype=np.float64)
    return kept[int(len(kept) * start_share) :]


def batch_means(values: NDArray[np.float64], batches: int = 20) -> tuple[float, float]:
    """Mean of a correlated series and half the width of its 95 % interval.

    The series is cut into `batches` pieces, long against its correlation, whose means are taken for
    independent: Student's t on them. Neighbouring values of a queue are not independent, so an interval from
    the values themselves would be far too narrow.

    Raises:
        ValueError: fewer values than twice the batches.

    References:
        Law, Simulation Modeling and Analysis, 5th ed., section 9.5.3.
    """
    if len(values) < 2 * batches:
        raise ValueError(f"batch means need at least {2 * batches} values, got {len(values)}")
    size = len(values) // batches
    means = values[: size * batches].reshape(batches, size).mean(1)
    half_width = student_t.ppf(0.975, batches - 1) * means.std(ddof=1) / math.sqrt(batches)
    return float(values.mean()), float(half_width)
