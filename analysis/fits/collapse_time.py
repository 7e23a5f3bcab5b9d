"""When does a run that collapses do so? log(t_c - S) = a - b log eta - c log S.

A drift that needs a total of learning steps times rate after the first stale data arrive gives b = 1 and
c = 0: t_c = S + const / eta. Runs that held out to the end are of two kinds, those that would still have
collapsed and those that never would. Taken as censored all alike, the second kind makes collapses look late
near the boundary (in simulated studies b = 1 came out as 1.2); left out all alike, the first makes them look
early near the budget. So the fit is to the collapses, each given that it came before the end: a regression
that is truncated at the budget (`regression.truncated_lines`). How many of an arm collapse at all is the
boundary's question, not this one's.
"""

from __future__ import annotations

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from analysis.fits.record import (
    MINIMUM_EVENTS,
    Draw,
    Fit,
    drawn_weights,
    fewest_seeds,
    no_fit,
    varies,
    with_lag,
)
from analysis.statistics.regression import truncated_lines
from analysis.statistics.resampling import percentiles


def collapse_time(table: pd.DataFrame, draw: Draw, *, of: str) -> Fit:
    """Minus the slope of log(t_c - S): b for `of` = "learning_rate", c for "lag"."""
    if "learning_rate" not in table.columns:
        return no_fit("no learning rate is a factor", table, draw)
    table = with_lag(table)
    used, left_out = collapsing(table)
    columns = [name for name in ("learning_rate", "lag") if varies(used[name])]
    if len(used) < MINIMUM_EVENTS:
        return no_fit(f"{len(used)} collapses; {MINIMUM_EVENTS} are needed", used, draw)
    if of not in columns:
        return no_fit(f"{of.replace('_', ' ')} has one value only where runs collapsed", used, draw)
    y, ceiling = _log_times(used)
    design = _design(used, columns)
    weights = drawn_weights(table, used, draw)
    fitted = truncated_lines(design, y, ceiling, weights)
    interval, lost = percentiles(-fitted[:, 1 + columns.index(of)], n=len(used), confidence=draw.confidence)
    return Fit(
        interval=interval,
        runs=f"{len(used)} collapses in {used['arm'].nunique()} arms",
        seeds=fewest_seeds(table, used),
        note="; ".join(note for note in (left_out, lost) if note),
    )


def beyond_budget(table: pd.DataFrame) -> list[str]:
    """Arms that would collapse, if they do, after they were watched: what is not seen there says nothing.

    By the line fitted to the collapses that were seen; none if it cannot be fitted.
    """
    used, _ = collapsing(table)
    columns = [name for name in ("learning_rate", "lag") if varies(used[name])]
    if len(used) < MINIMUM_EVENTS or "learning_rate" not in columns:
        return []
    y, ceiling = _log_times(used)
    line = truncated_lines(_design(used, columns), y, ceiling, np.ones((1, len(used))))[0]
    predicted = table["lag"].to_numpy(dtype=float) + np.exp(_design(table, columns) @ line)
    late = table["arm"].loc[predicted > table["watched_until_update"].to_numpy(dtype=float)]
    return [str(arm) for arm in dict.fromkeys(late)]


def _design(table: pd.DataFrame, columns: list[str]) -> NDArray[np.float64]:
    return np.column_stack([np.ones(len(table)), np.log(table[columns].to_numpy(dtype=float))])


def _log_times(used: pd.DataFrame) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    """Logarithms of the time to collapse after the first stale data, and of the last that could be seen."""
    y, ceiling = (
        np.log(np.maximum((used[name] - used["lag"]).to_numpy(dtype=float), 1e-9))
        for name in ("event_update", "watched_until_update")
    )
    return y, np.maximum(y, ceiling)


def collapsing(table: pd.DataFrame) -> tuple[pd.DataFrame, str]:
    """Collapses of runs with a lag, later than it; and which were left out, in words."""
    broken = table.loc[table["collapsed"].astype(bool) & (table["lag"] > 0)]
    used = broken.loc[broken["event_update"] > broken["lag"]]
    early = len(broken) - len(used)
    return used, f"{early} collapses before the first stale data left out" if early else ""
