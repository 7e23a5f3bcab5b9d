"""How many rollouts were answered, and how long did it take, those that never were among them?

Whoever leaves out what timed out measures the survivors. Here every rollout counts: one that was given up, or
was still under way at the end, took *at least* as long as it was watched (it is censored there).

Source: Kaplan and Meier 1958, as in `scipy.stats.ecdf`.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import final

import numpy as np
import pandas as pd
from scipy import stats

from analysis.measures.lengths import generated
from analysis.statistics.survival import Bools, Floats, censored


@final
@dataclass(frozen=True, slots=True, kw_only=True)
class Seconds:
    """A percentile of times, or as much as is known of it."""

    value: float
    censored: bool
    """It is at least `value`; nobody was watched for long enough to say more."""

    def __str__(self) -> str:
        return f">={self.value:g} s (censored)" if self.censored else f"{self.value:g} s"


@final
@dataclass(frozen=True, slots=True, kw_only=True)
class Completion:
    """Of all attempts: what began again counts as one that was given up and as a new one."""

    offered: int
    completed: int
    goodput_tokens_per_s: float
    """Tokens of those that were completed, over the time of the whole run."""
    p50: Seconds
    p90: Seconds
    p99: Seconds

    @property
    def share(self) -> float:
        return self.completed / self.offered


def completion(rollouts: pd.DataFrame, end_s: float) -> Completion:
    """From being asked for to the last token, validation left out.

    *Choice*: one that a rule threw away while it decoded is censored at that time. Kaplan-Meier takes such
    drops to say nothing of how long it would have taken; where a rule drops what takes long, percentiles
    above the first drop are too low. A common time-out is the exact case: nothing ends after it.

    Args:
        rollouts: of the log.
        end_s: when the run ended.

    Raises:
        ValueError: nothing was offered, or no time passed.
    """
    asked = rollouts.loc[(rollouts["status"] != "validation") & rollouts["submitted_s"].notna()]
    if asked.empty or not end_s > 0:
        raise ValueError(f"{len(asked)} rollouts were asked for in {end_s} s: there is nothing to measure")
    done = generated(asked).to_numpy()
    begun = asked["submitted_s"].to_numpy(dtype=float)
    finished = asked["finished_s"].to_numpy(dtype=float)
    given_up = asked["consumed_s"].astype(float).fillna(end_s).to_numpy(dtype=float)
    waited = np.where(done, finished, given_up) - begun
    return Completion(
        offered=len(asked),
        completed=int(done.sum()),
        goodput_tokens_per_s=float(asked["action_tokens"].to_numpy(dtype=float)[done].sum()) / end_s,
        p50=time_quantile(waited, done, 0.5),
        p90=time_quantile(waited, done, 0.9),
        p99=time_quantile(waited, done, 0.99),
    )


def time_quantile(times: Floats, happened: Bools, level: float) -> Seconds:
    r"""The least time by which it happened to a share `level`, :math:`\min\{t : \hat S(t) \le 1 - q\}`.

    Args:
        times: when it happened, or until when it was watched, in seconds; shape (n,), n > 0.
        happened: False where it did not.
        level: q in (0, 1).

    Returns:
        The longest time that anybody was watched, censored, if the share is never reached.
    """
    left = stats.ecdf(censored(times, happened)).sf
    # 1e-12: products of shares must count as the share that they are
    reached = np.flatnonzero(left.probabilities <= 1 - level + 1e-12)
    if len(reached):
        return Seconds(value=float(left.quantiles[reached[0]]), censored=False)
    return Seconds(value=float(times.max()), censored=True)
