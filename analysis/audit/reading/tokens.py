r"""What do per-token log-probs say, by lag? Sums only, so any number of tokens takes the same memory.

With x the trainer's log-prob of a token, y the behaviour's and d = x - y = log r: sums of x, y, their
squares, d, :math:`r - 1 - d`, r and :math:`r^2` over the tokens that the loss counts; of a rollout :math:`w =
e^{\sum d}`. Log-ratios are clamped to 20 nats, and masked tokens left out, before any exponential.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, field
from typing import Final, final

import numpy as np
import pandas as pd
from numpy.typing import NDArray

Floats = NDArray[np.float64]
MAX_LOG_RATIO: Final = 20.0
UNKNOWN_LAG: Final = -1.0
SUMS: Final = ("tokens", "x", "y", "xx", "yy", "xy", "d", "k3", "r", "rr", "rollouts", "w", "ww")


@final
@dataclass(slots=True, kw_only=True)
class TokenSums:
    """The fold: `add` each rollout, then `table`."""

    by_lag: dict[float, Floats] = field(default_factory=dict)
    not_finite: int = 0
    """Counted tokens whose log-prob is NaN or infinite on one side."""
    uneven: int = 0
    """Rollouts whose lists have different lengths."""
    rewarded: int = 0
    """Rollouts with token rewards that are neither all zero nor all equal."""
    reward_elsewhere: int = 0
    """Those of them whose last rewarded token is not the last counted one."""

    def add(self, trainer: Floats, behaviour: Floats, mask: NDArray[np.bool_], lags: Floats) -> None:
        """One rollout: log-probs, what counts, and the lag of each token, all of shape (tokens,)."""
        if not len(trainer) == len(behaviour) == len(mask) == len(lags):
            self.uneven += 1
            return
        finite = np.isfinite(trainer) & np.isfinite(behaviour)
        self.not_finite += int((mask & ~finite).sum())
        counted = mask & finite
        if not counted.any():
            return
        for lag in np.unique(lags[counted]):
            chosen = counted & (lags == lag)
            sums = _sums(trainer[chosen], behaviour[chosen])
            self.by_lag[float(lag)] = self.by_lag.get(float(lag), np.zeros(len(SUMS))) + sums

    def add_rewards(self, rewards: Floats, mask: NDArray[np.bool_]) -> None:
        """Where is the reward? Rewards that are one value on every token say nothing."""
        if len(rewards) != len(mask) or not mask.any():
            return
        paid = np.flatnonzero(np.nan_to_num(rewards) != 0)
        if len(paid) == 0 or (len(rewards) > 1 and np.ptp(np.nan_to_num(rewards)) == 0):
            return
        self.rewarded += 1
        self.reward_elsewhere += int(paid[-1] != np.flatnonzero(mask)[-1])

    def table(self) -> pd.DataFrame:
        """One row a lag (-1 where it is not known): lag and the sums."""
        rows = [[lag, *sums] for lag, sums in sorted(self.by_lag.items())]
        return pd.DataFrame(rows, columns=["lag", *SUMS])


def _sums(trainer: Floats, behaviour: Floats) -> Floats:
    x, y = np.clip(trainer, -1e6, 1e6), np.clip(behaviour, -1e6, 1e6)
    d = np.clip(x - y, -MAX_LOG_RATIO, MAX_LOG_RATIO)
    r = np.exp(d)
    w = math.exp(max(-MAX_LOG_RATIO, min(MAX_LOG_RATIO, float(d.sum()))))
    sums = (x, y, x * x, y * y, x * y, d, r - 1 - d, r, r * r)
    return np.array([len(x), *(float(part.sum()) for part in sums), 1.0, w, w * w])
