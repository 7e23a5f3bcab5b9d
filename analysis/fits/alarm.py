"""How good is the alarm of `analysis.measures.alarm`? Its lead, how often it cries wolf, how often it sleeps.

The two shares have Wilson's interval, not a bootstrap one: none of twenty drawn anew is always none of
twenty, which would claim certainty.
"""

from __future__ import annotations

import numpy as np
import pandas as pd

from analysis.fits.record import MINIMUM_EVENTS, Draw, Fit, drawn_weights, fewest_seeds, no_fit
from analysis.statistics.intervals import wilson
from analysis.statistics.resampling import percentiles, weighted_median


def alarm_lead(table: pd.DataFrame, draw: Draw) -> Fit:
    """Median updates from the alarm to the collapse, over collapses that had one before."""
    broken = int((table["missed_collapse"].notna()).sum())
    used = table.loc[table["alarm_lead_updates"].notna()]
    if len(used) < MINIMUM_EVENTS:
        return no_fit(
            f"{len(used)} of {broken} collapses had an alarm; {MINIMUM_EVENTS} are needed", used, draw
        )
    leads = used["alarm_lead_updates"].to_numpy(dtype=float)
    weights = drawn_weights(table, used, draw)
    interval, lost = percentiles(weighted_median(leads, weights), n=len(used), confidence=draw.confidence)
    low, high = np.quantile(leads, [0.1, 0.9])
    spread = f"80 % of them between {low:.0f} and {high:.0f} updates"
    return Fit(
        interval=interval,
        runs=f"{len(used)} of {broken} collapses had an alarm before",
        seeds=fewest_seeds(table, used),
        note="; ".join(note for note in (spread, lost) if note),
    )


def alarm_false(table: pd.DataFrame, draw: Draw) -> Fit:
    """Share of the runs that never collapsed in which the alarm went off."""
    return _share(table, "false_alarm", "runs that never collapsed had an alarm", draw)


def alarm_missed(table: pd.DataFrame, draw: Draw) -> Fit:
    """Share of the collapses that no alarm came before."""
    return _share(table, "missed_collapse", "collapses had no alarm before", draw)


def _share(table: pd.DataFrame, name: str, words: str, draw: Draw) -> Fit:
    used = table.loc[table[name].notna()]
    if used.empty:
        return no_fit("no such run with a measured cosine", used, draw)
    events = int(used[name].sum())
    return Fit(
        interval=wilson(events, len(used), confidence=draw.confidence),
        runs=f"{events} of {len(used)} {words}",
        seeds=fewest_seeds(table, used),
    )
