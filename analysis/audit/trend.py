"""Does a noisy series rise or fall? By the means of eight blocks, as neighbours may depend on each other."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final, final

import numpy as np
from numpy.typing import NDArray
from scipy import stats

Floats = NDArray[np.float64]
BLOCKS: Final = 8
_CLEAR: Final = 4.0
"""Standard errors of a block mean by which late and early must differ. *Choice*."""


@final
@dataclass(frozen=True, slots=True, kw_only=True)
class Trend:
    """How a series went."""

    early: float
    """Mean of the first two blocks."""
    late: float
    """Mean of the last two."""
    rank: float
    """Spearman's correlation of block means with time; 0 if late and early do not differ clearly."""
    n: int
    where: tuple[float, float]
    """First and last update that were used."""


def trend(updates: Floats, values: Floats, *, start_up: float, fewest: int) -> Trend | None:
    """The trend after the first share of a series; None if it is too short.

    Args:
        updates: rising.
        values: finite, as many.
        start_up: share that is left out at the beginning.
        fewest: values that must remain.
    """
    begin = int(start_up * len(values))
    kept, at = values[begin:], updates[begin:]
    if len(kept) < max(fewest, BLOCKS):
        return None
    blocks = np.array_split(kept, BLOCKS)
    means = np.array([block.mean() for block in blocks])
    error = float(np.sqrt(np.mean([block.var() / len(block) for block in blocks]))) * _memory(blocks)
    early, late = float(means[:2].mean()), float(means[-2:].mean())
    clear = abs(late - early) > _CLEAR * error and np.ptp(means) > 0
    rank = float(stats.spearmanr(np.arange(BLOCKS), means).statistic) if clear else 0.0
    return Trend(early=early, late=late, rank=rank, n=len(kept), where=(float(at[0]), float(at[-1])))


def _memory(blocks: Sequence[Floats]) -> float:
    r"""By how much neighbours that are alike widen a mean: :math:`\sqrt{(1 + \phi) / (1 - \phi)}`."""
    inside = [block - block.mean() for block in blocks]
    together = sum(float((block[1:] * block[:-1]).sum()) for block in inside)
    alone = sum(float((block * block).sum()) for block in inside)
    phi = min(0.9, max(0.0, together / alone)) if alone > 0 else 0.0
    return math.sqrt((1 + phi) / (1 - phi))


def level(values: Floats) -> float:
    """Where the last quarter of a series lies: its median, which one spike does not move."""
    return float(np.median(values[-max(1, len(values) // 4) :]))


def running_median(values: Floats, window: int) -> Floats:
    """Median of the `window` values before each; of what there is at the beginning, NaN for the first."""
    found = np.full(len(values), np.nan)
    for i in range(1, len(values)):
        found[i] = np.median(values[max(0, i - window) : i])
    return found
