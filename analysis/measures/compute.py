"""How much machine time was spent, and by when? The trainer's busy time and the engines', in hours.

A machine works while anything in it does: an engine while at least one of its slots decodes. The critic's
updates are the trainer's time like any other, so an estimator with a critic is charged for it. The trainer is
one machine and each engine one machine, whatever accelerators they are made of (*choice*).
"""

from __future__ import annotations

import math

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from analysis.measures.idle import clip, merge
from analysis.runs import Run

Floats = NDArray[np.float64]


def compute_hours(run: Run, until_s: Floats) -> Floats:
    """Machine hours of work from the start of the run until each of these instants; NaN without a log."""
    until_s = np.asarray(until_s, dtype=float)
    if run.intervals.empty or len(until_s) == 0 or not until_s.max() > 0:
        return np.full(len(until_s), math.nan)
    busy = run.intervals.loc[run.intervals["state"] == "busy"]
    total = np.zeros(len(until_s))
    for _, own in busy.groupby(_machines(busy["resource"])):
        spans = merge(clip(own[["start_s", "end_s"]].to_numpy(dtype=float), (0.0, float(until_s.max()))))
        if len(spans) == 0:
            continue
        worked = np.cumsum(spans[:, 1] - spans[:, 0])
        # Flat between spells, rising with slope 1 within them.
        edges = np.concatenate([[0.0], spans.ravel()])
        heights = np.concatenate([[0.0], np.column_stack([worked - np.diff(spans)[:, 0], worked]).ravel()])
        total += np.interp(until_s, edges, heights)
    return total / 3600


def _machines(resources: pd.Series[str]) -> pd.Series[str]:
    """The machine that a resource is a part of: `engine-0/slot-3` is of `engine-0`."""
    # Each name once: there are a thousand names and many rows.
    return resources.map({name: name.split("/")[0] for name in resources.unique()})
