"""If every run would collapse in the end, how does the time to it stretch?

By log(t_c - S) = a - b log eta - c log S with runs that held out censored: accelerated failure.

It is shown beside the truncated regression of `analysis.fits.collapse_time`, which is what claims are judged
by, not instead of it: here a run that held out is one whose collapse is still to come. Near a boundary, where
some never would, that makes collapses look late and b too large. Weibull or lognormal, whichever has the
lower AIC; both are said.
"""

from __future__ import annotations

import numpy as np
import pandas as pd

from analysis.fits.record import MINIMUM_EVENTS, Draw, Fit, fewest_seeds, no_fit, varies, with_lag
from analysis.statistics.accelerated_failure import fit_failure


def accelerated_failure(table: pd.DataFrame, draw: Draw, *, of: str) -> Fit:
    """Minus the slope of log(t_c - S), censored runs kept: b for `of` = "learning_rate", c for "lag"."""
    if "learning_rate" not in table.columns:
        return no_fit("no learning rate is a factor", table, draw)
    used = _watched(with_lag(table))
    broken = used["collapsed"].to_numpy(dtype=bool)
    columns = [name for name in ("learning_rate", "lag") if varies(used[name])]
    if broken.sum() < MINIMUM_EVENTS:
        return no_fit(f"{broken.sum()} collapses; {MINIMUM_EVENTS} are needed", used, draw)
    if of not in columns:
        return no_fit(f"{of.replace('_', ' ')} has one value only", used, draw)
    logs = np.log(used[columns].to_numpy(dtype=float))
    design = np.column_stack([np.ones(len(used)), logs - logs.mean(axis=0)])
    times = used["time"].to_numpy(dtype=float)
    fits = [fit_failure(design, times, broken, law=law) for law in ("Weibull", "lognormal")]
    known = [found for found in fits if np.isfinite(found.errors).all()]
    if not known:
        return no_fit("these collapses have no one line", used, draw)
    best = min(known, key=lambda found: found.aic)
    compared = ", ".join(f"{found.law} {found.aic:.1f}" for found in known)
    return Fit(
        interval=best.interval(1 + columns.index(of), n=len(used), sign=-1.0, confidence=draw.confidence),
        runs=f"{broken.sum()} of {len(used)} runs collapsed, {used['arm'].nunique()} arms",
        seeds=fewest_seeds(used),
        note=f"{best.law} times (AIC: {compared}); takes every run that held out as one that would collapse"
        " later, so b is too large near a boundary",
    )


def _watched(table: pd.DataFrame) -> pd.DataFrame:
    """Measured runs with a lag that were watched beyond it, with `time`: updates from then to the event."""
    broken = table["collapsed"].astype(bool)
    until = table["event_update"].where(broken, table["watched_until_update"]) - table["lag"]
    used = table.assign(time=until).loc[(table["lag"] > 0) & (until > 0)]
    return used.reset_index(drop=True)
