"""How many were inside at each moment? Counts that step up when one enters and down when one leaves.

A cut (after a warm-up, say) carries the state over it: what entered before the cut and is still there
counts. Only statistics begin anew.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final, final

import numpy as np
import pandas as pd
from numpy.typing import NDArray

PLACES: Final = {
    "in flight": ("started_s", "finished_s"),
    "waiting": ("finished_s", "enqueued_s"),
    "queue": ("enqueued_s", "consumed_s"),
}
"""Where a rollout is, and the columns of when it enters and leaves."""


@final
@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Level:
    """A step function: `values[i]` holds from `times_s[i]` until the next; 0 before the first."""

    times_s: NDArray[np.float64]
    values: NDArray[np.int64]

    def at(self, times_s: NDArray[np.float64]) -> NDArray[np.int64]:
        """The level at each time, after all changes of that instant."""
        padded = np.concatenate([[0], self.values])
        found: NDArray[np.int64] = padded[np.searchsorted(self.times_s, times_s, side="right")]
        return found

    def within(self, window_s: tuple[float, float]) -> Level:
        """The same level in a window: it starts with what is inside at the cut."""
        start_s, end_s = window_s
        inside = (self.times_s > start_s) & (self.times_s < end_s)
        return Level(
            times_s=np.concatenate([[start_s], self.times_s[inside]]),
            values=np.concatenate([self.at(np.array([start_s])), self.values[inside]]),
        )

    def time_average(self, window_s: tuple[float, float]) -> float:
        """Mean over the seconds of a window, not over the changes in it."""
        start_s, end_s = window_s
        if not end_s > start_s:
            raise ValueError(f"window [{start_s}, {end_s}] s is empty")
        own = self.within(window_s)
        lasts_s = np.diff(np.append(own.times_s, end_s))
        return float((own.values * lasts_s).sum() / (end_s - start_s))


def level(enter_s: NDArray[np.float64], leave_s: NDArray[np.float64]) -> Level:
    """One step for each instant at which something changes.

    Args:
        enter_s: one for each that enters; NaN for one that never did.
        leave_s: of the same; NaN for one that is still inside.
    """
    entered = np.isfinite(enter_s)
    left = entered & np.isfinite(leave_s)
    times = np.concatenate([enter_s[entered], leave_s[left]])
    change = np.repeat([1, -1], [entered.sum(), left.sum()])
    instants, place = np.unique(times, return_inverse=True)
    steps = np.bincount(place, weights=change, minlength=len(instants)).astype(np.int64)
    return Level(times_s=instants, values=np.cumsum(steps))


def places(rollouts: pd.DataFrame) -> dict[str, Level]:
    """Rollouts in flight, waiting for their group, and in the queue, over time; each is in one place.

    One that was dropped leaves where it was.
    """
    taken_s = rollouts["consumed_s"].astype(float)
    found = {}
    for name, (enter, leave) in PLACES.items():
        # Who was dropped early never passed the later doors.
        left_s = rollouts[leave].astype(float).fillna(taken_s)
        found[name] = level(rollouts[enter].to_numpy(dtype=float), np.asarray(left_s, dtype=np.float64))
    return found
