"""Did learning break, or only stop? Collapse, stall, still learning and target reached, told apart.

Registered before the runs: a run *collapses* when its score is below 0.6 of its running maximum at every
measurement of a stated window of updates, or when it becomes non-finite. The event is dated at the first
update of that spell. A spell that the budget cuts short is not an event: the run is censored there. A run
that never rose above chance cannot fall, so it cannot collapse; it *stalls*, as does one whose score
stopped rising below the target.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal, final

import numpy as np
import pandas as pd
from numpy.typing import NDArray

Fate = Literal["collapsed", "reached target", "stalled", "still learning"]


@final
@dataclass(frozen=True, slots=True, kw_only=True)
class Criteria:
    """What counts as what, fixed before the runs are looked at. Scores are in the score's own unit."""

    metric: str = "accuracy"
    """Column of `updates` that is the score; higher is better."""
    target: float = 0.8
    """Score that counts as having learned the task."""
    chance: float = 0.0
    """Score of a policy that knows nothing."""
    collapse_share: float = 0.6
    """Below this share of the running maximum, a run is down."""
    collapse_window_updates: int = 20
    """Updates that it must stay down for."""
    learned_gain: float = 0.1
    """Share of the way from chance to 1 that a run must have come before its fall is a collapse."""
    stall_share: float = 1 / 3
    """Last share of the updates in which a run that still learns must improve."""
    stall_gain: float = 0.02
    """Improvement, second half of that part over its first half, below which it has stalled."""
    final_share: float = 0.05
    """Last share of the updates whose mean is the final score."""
    shift_updates: tuple[int, ...] = ()
    """Versions at which what is taught changes, in order (`analysis.measures.recovery`)."""
    recovered_share: float = 0.9
    """Share of its level before a shift at which a run has recovered."""
    recovery_window_updates: int = 10
    """Updates that the score is averaged over, before a shift and after it."""
    alarm_cosine: float = 0.3
    """Mean cosine of consecutive gradients above which the alarm goes off (`analysis.measures.alarm`)."""
    alarm_window_updates: int = 20
    """Updates that this mean is over."""

    def __post_init__(self) -> None:
        object.__setattr__(self, "shift_updates", tuple(self.shift_updates))  # a list, out of JSON
        for name in ("collapse_share", "stall_share", "final_share", "recovered_share"):
            if not 0 < getattr(self, name) <= 1:
                raise ValueError(f"criteria: {name} is {getattr(self, name)}, not in (0, 1]")
        for name in ("collapse_window_updates", "recovery_window_updates", "alarm_window_updates"):
            if getattr(self, name) < 1:
                raise ValueError(f"criteria: {name} is {getattr(self, name)}, not >= 1")
        if any(a >= b for a, b in zip((0, *self.shift_updates), self.shift_updates, strict=False)):
            raise ValueError(f"criteria: shift_updates {self.shift_updates} are not positive and rising")
        if not self.chance < self.target:
            raise ValueError(f"criteria: target {self.target} is not above chance {self.chance}")

    @property
    def learned_score(self) -> float:
        """Running maximum above which a later fall counts."""
        return self.chance + self.learned_gain * (1 - self.chance)


@final
@dataclass(frozen=True, slots=True, kw_only=True)
class Collapse:
    """When a run broke, or how long it was watched without breaking; in updates."""

    happened: bool
    update: float
    """First update of the spell, or the last update of the run if it is censored there."""
    cause: Literal["below running maximum", "non-finite", ""] = ""


def collapse(updates: pd.DataFrame, criteria: Criteria) -> Collapse:
    """The first collapse of one run, right-censored at its last update."""
    if updates.empty:
        raise ValueError("a run without updates neither collapses nor survives")
    versions = updates["version"].to_numpy(dtype=float)
    candidates: list[tuple[float, Literal["below running maximum", "non-finite"]]] = []
    broken = non_finite(updates, criteria.metric)
    if broken.any():
        candidates.append((float(versions[broken][0]), "non-finite"))
    values = updates[criteria.metric].to_numpy(dtype=float)
    measured = np.isfinite(values)
    fall = first_fall(versions[measured], values[measured], criteria)
    if fall is not None:
        candidates.append((fall, "below running maximum"))
    if not candidates:
        return Collapse(happened=False, update=float(versions[-1]))
    update, cause = min(candidates)
    return Collapse(happened=True, update=update, cause=cause)


def first_fall(
    versions: NDArray[np.float64], values: NDArray[np.float64], criteria: Criteria
) -> float | None:
    """First update of the first spell below its running maximum's share that lasts; None if none does."""
    if len(values) == 0:
        return None
    peak = np.maximum.accumulate(values)
    down = (values < criteria.collapse_share * peak) & (peak >= criteria.learned_score)
    edges = np.flatnonzero(np.diff(np.concatenate([[False], down, [False]])))
    for begin, end in zip(edges[::2], edges[1::2], strict=True):
        # Down at v and at v + w - 1 is down for w updates.
        if versions[end - 1] - versions[begin] + 1 >= criteria.collapse_window_updates:
            return float(versions[begin])
    return None


def non_finite(updates: pd.DataFrame, metric: str) -> NDArray[np.bool_]:
    """Updates at which the numbers broke: an infinite score or loss, or an update refused for its gradient.

    NaN alone is "not measured here", except in `loss` and `gradient_norm`, which every update has if any has.
    """
    broken = np.zeros(len(updates), dtype=bool)
    for column in {metric, "reward", "loss", "gradient_norm"} & set(updates.columns):
        values = updates[column].to_numpy(dtype=float)
        broken |= np.isinf(values)
        if column in ("loss", "gradient_norm") and np.isfinite(values).any():
            broken |= np.isnan(values)
    if "refused" in updates.columns:
        broken |= updates["refused"].to_numpy(dtype=float) > 0
    return broken


def final_score(updates: pd.DataFrame, criteria: Criteria) -> float:
    """Mean score over the last share of the updates, of those measured; NaN if none was."""
    return _mean(tail(updates, criteria.final_share)[criteria.metric].to_numpy(dtype=float))


def fate(updates: pd.DataFrame, criteria: Criteria) -> Fate:
    """One word for how a run ended; collapse first, then target, then stall."""
    if collapse(updates, criteria).happened:
        return "collapsed"
    if final_score(updates, criteria) >= criteria.target:
        return "reached target"
    last = tail(updates, criteria.stall_share)[criteria.metric].to_numpy(dtype=float)
    gain = _mean(last[len(last) // 2 :]) - _mean(last[: len(last) // 2])
    return "still learning" if gain >= criteria.stall_gain else "stalled"


def tail(updates: pd.DataFrame, share: float) -> pd.DataFrame:
    """The last share of the updates, at least one."""
    return updates.iloc[-max(1, round(share * len(updates))) :]


def _mean(values: NDArray[np.float64]) -> float:
    measured = values[np.isfinite(values)]
    return float(measured.mean()) if len(measured) else float("nan")
