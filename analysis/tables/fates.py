"""How did the runs of each arm end? Shares of collapse, stall and the rest, with intervals."""

from __future__ import annotations

from typing import get_args

import pandas as pd

from analysis.measures.collapse import Fate
from analysis.statistics.intervals import wilson


def shares_of_fates(outcomes: pd.DataFrame, by: str = "arm") -> pd.DataFrame:
    """How did the runs end? One row a group and fate: share of its measured runs, with Wilson's interval.

    Returns:
        Columns `by`, fate, events, n, share, low, high; the shares of a group add up to 1.
    """
    rows: list[dict[str, object]] = []
    measured = outcomes.loc[outcomes["fate"] != "not measured"]
    for group, own in measured.groupby(by, sort=False):
        for fate in get_args(Fate):
            events = int((own["fate"] == fate).sum())
            found = wilson(events, len(own))
            rows.append(
                {
                    by: group,
                    "fate": fate,
                    "events": events,
                    "n": len(own),
                    "share": found.estimate,
                    "low": found.low,
                    "high": found.high,
                }
            )
    return pd.DataFrame(rows, columns=[by, "fate", "events", "n", "share", "low", "high"])
