"""What would this pipeline do for ever? Long-run lag, idleness and throughput of one run, with intervals.

Three series of one run, each a number an equal step of its own clock: mean lag by update; busy share and
trained tokens by equal spans of time, as many spans as updates. Warm-up and intervals are those of
`analysis.statistics.steady_state`. The interval is of this pipeline under these settings, not over seeds of a
learner, and it takes the settings as they are.
"""

from __future__ import annotations

from typing import Final

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from analysis.measures.idle import clip, machine_kind, merge
from analysis.measures.throughput import window_s
from analysis.runs import Run
from analysis.statistics.steady_state import SteadyState, steady_state

Floats = NDArray[np.float64]
MEASURES: Final = ("mean_lag", "trainer_idle", "engine_idle", "trained_tokens_per_s")


def steady_states(run: Run) -> dict[str, SteadyState]:
    """Long-run means by the names of their outcomes (`analysis.measures.outcomes`); none of an imposed lag.

    Lag is that of each trained rollout's oldest token, in updates; idle shares are of a kind of machine.
    """
    if run.clock == "imposed" or run.updates.empty:
        return {}
    start_s, end_s = window_s(run)
    edges_s = np.linspace(start_s, end_s, len(run.updates) + 1)
    span_s = edges_s[1] - edges_s[0]
    series = {
        "mean_lag": lag_by_update(run.rollouts),
        "trainer_idle": 1 - busy_share(run.intervals, "trainer", edges_s),
        "engine_idle": 1 - busy_share(run.intervals, "engines", edges_s),
        "trained_tokens_per_s": _trained_tokens(run.rollouts, edges_s) / span_s,
    }
    known = {name: values for name, values in series.items() if len(values) and np.isfinite(values).all()}
    return {name: steady_state(values) for name, values in known.items()}


def lag_by_update(rollouts: pd.DataFrame) -> Floats:
    """Mean lag of the oldest tokens, update by update."""
    trained = rollouts.loc[rollouts["status"] == "trained"]
    lag = (trained["consumed_version"] - trained["oldest_version"]).astype(float)
    return np.asarray(lag.groupby(trained["consumed_version"]).mean(), dtype=np.float64)


def busy_share(intervals: pd.DataFrame, kind: str, edges_s: Floats) -> Floats:
    """Mean share of each span in which machines of a kind were busy; NaN if there is no such machine.

    Args:
        edges_s: bounds of the spans, rising, shape (spans + 1,).
    """
    kinds = intervals["resource"].map(machine_kind(intervals["resource"].drop_duplicates()))
    own = intervals.loc[kinds == kind]
    machines = own["resource"].nunique()
    if machines == 0:
        return np.full(len(edges_s) - 1, np.nan)
    window = (float(edges_s[0]), float(edges_s[-1]))
    busy = own.loc[own["state"] == "busy"]
    spans = [
        merge(clip(one[["start_s", "end_s"]].to_numpy(dtype=float), window))
        for _, one in busy.groupby("resource", sort=False)
    ]
    starts, ends = np.concatenate(spans).T if spans else np.empty((2, 0))
    # Seconds worked up to t: of every spell, from its start, less what is beyond its end.
    worked = _elapsed(starts, edges_s) - _elapsed(ends, edges_s)
    return np.asarray(np.diff(worked) / np.diff(edges_s) / machines)


def _elapsed(since_s: Floats, at_s: Floats) -> Floats:
    r""":math:`\sum_i \max(0, t - s_i)` at every t."""
    ordered = np.sort(since_s)
    sums = np.concatenate([[0.0], np.cumsum(ordered)])
    passed = np.searchsorted(ordered, at_s)
    return np.asarray(passed * at_s - sums[passed])


def _trained_tokens(rollouts: pd.DataFrame, edges_s: Floats) -> Floats:
    """Tokens of the rollouts that training took up in each span."""
    trained = rollouts.loc[rollouts["status"] == "trained"]
    weights = trained["action_tokens"].to_numpy(dtype=float)
    return np.histogram(trained["consumed_s"].to_numpy(dtype=float), bins=edges_s, weights=weights)[0]
