"""How long does a run need to come back after what it is taught has changed?

The *former level* is the mean score over a window of updates before the shift. The score after the shift is
smoothed by its trailing mean over the same window, which never reaches back across the shift. Recovered is
the first update, from the lowest smoothed score on, at which it is again at the stated share of the former
level; from the lowest on, since stale data may keep the score up for a while. A run that had learned nothing
before a shift has nothing to come back to, and has not recovered. *Choices*, all of them.
"""

from __future__ import annotations

import math

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from analysis.measures.collapse import Criteria


def recoveries(updates: pd.DataFrame, criteria: Criteria) -> pd.DataFrame:
    """One row a shift that the run has lived through.

    Args:
        updates: of one run.
        criteria: `shift_updates` are the versions at which what is taught changes.

    Returns:
        Columns shift, level (former), lowest (smoothed score after it), recovered_after (updates; NaN if
        not before the next shift or the end), watched (updates from the shift to the next, or to the end).
    """
    measured = updates.loc[np.isfinite(updates[criteria.metric].to_numpy(dtype=float))]
    versions = measured["version"].to_numpy(dtype=float)
    values = measured[criteria.metric].to_numpy(dtype=float)
    last = float(updates["version"].max()) if len(updates) else 0.0
    window = criteria.recovery_window_updates
    rows: list[dict[str, float]] = []
    for shift, end in zip(criteria.shift_updates, [*criteria.shift_updates[1:], math.inf], strict=True):
        before = values[(versions <= shift) & (versions > shift - window)]
        after = (versions > shift) & (versions <= end)
        if len(before) == 0 or not after.any():
            continue
        smooth = trailing_mean(versions[after], values[after], window)
        level = float(before.mean())
        lowest = int(smooth.argmin())
        back = np.flatnonzero(smooth[lowest:] >= criteria.recovered_share * level)
        if level < criteria.learned_score:
            back = back[:0]
        rows.append(
            {
                "shift": float(shift),
                "level": level,
                "lowest": float(smooth[lowest]),
                "recovered_after": float(versions[after][lowest + back[0]] - shift)
                if len(back)
                else math.nan,
                "watched": min(end, last) - shift,
            }
        )
    return pd.DataFrame(rows, columns=["shift", "level", "lowest", "recovered_after", "watched"])


def trailing_mean(
    versions: NDArray[np.float64], values: NDArray[np.float64], window: int
) -> NDArray[np.float64]:
    """Mean of the values measured in (version - window, version]; shorter where the series begins."""
    first = np.searchsorted(versions, versions - window, side="right")
    sums = np.concatenate([[0.0], np.cumsum(values)])
    last = np.arange(1, len(values) + 1)
    return np.asarray((sums[last] - sums[first]) / (last - first))


def recovery_outcomes(updates: pd.DataFrame, criteria: Criteria) -> dict[str, float]:
    """Per-run scalars: one time a shift, their mean, and the share of shifts recovered from.

    In the mean, a shift that was not recovered from counts with as long as it was watched: leaving it out
    would flatter the run.
    """
    table = recoveries(updates, criteria)
    times = {f"recovery_updates_after_{shift:g}": math.nan for shift in criteria.shift_updates}
    times |= {
        f"recovery_updates_after_{row['shift']:g}": float(row["recovered_after"])
        for _, row in table.iterrows()
    }
    restricted = table["recovered_after"].fillna(table["watched"])
    return times | {
        "recovery_updates": float(restricted.mean()) if len(table) else math.nan,
        "recovered_share": float(table["recovered_after"].notna().mean()) if len(table) else math.nan,
    }
