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

from analysis.fits_record import MINIMUM_EVENTS, Draw, Fit, fewest_seeds, no_fit, varies, with_lag
from analysis.regression import truncated_lines
from analysis.resampling import percentiles, seed_weights


def collapse_time(table: pd.DataFrame, draw: Draw, *, of: str) -> Fit:
    """Minus the slope of log(t_c - S): b for `of` = "learning_rate", c for "lag"."""
    if "learning_rate" not in table.columns:
        return no_fit("no learning rate is a factor", table, draw)
    used, left_out = collapsing(with_lag(table))
    columns = [name for name in ("learning_rate", "lag") if varies(used[name])]
    if len(used) < MINIMUM_EVENTS:
        return no_fit(f"{len(used)} collapses; {MINIMUM_EVENTS} are needed", used, draw)
    if of not in columns:
        return no_fit(f"{of.replace('_', ' ')} has one value only where runs collapsed", used, draw)
    logs = np.log(used[columns].to_numpy(dtype=float))
    design = np.column_stack([np.ones(len(used)), logs - logs.mean(axis=0)])
    y, ceiling = (
        np.log((used[name] - used["lag"]).to_numpy(dtype=float))
        for name in ("event_update", "watched_until_update")
    )
    weights = seed_weights(used["arm"], rng=draw.rng, resamples=draw.resamples)
    fitted = truncated_lines(design, y, np.maximum(y, ceiling), weights)
    interval, lost = percentiles(-fitted[:, 1 + columns.index(of)], n=len(used), confidence=draw.confidence)
    return Fit(
        interval=interval,
        runs=f"{len(used)} collapses in {used['arm'].nunique()} arms",
        seeds=fewest_seeds(used),
        note="; ".join(note for note in (left_out, lost) if note),
    )


def collapsing(table: pd.DataFrame) -> tuple[pd.DataFrame, str]:
    """Collapses of runs with a lag, later than it; and which were left out, in words."""
    broken = table.loc[table["collapsed"].astype(bool) & (table["lag"] > 0)]
    used = broken.loc[broken["event_update"] > broken["lag"]].reset_index(drop=True)
    early = len(broken) - len(used)
    return used, f"{early} collapses before the first stale data left out" if early else ""
