"""Does the cosine of consecutive gradients give warning before learning breaks?

Registered before the runs: the alarm is the first update at which the mean cosine of the last
`alarm_window_updates` updates is above `alarm_cosine`. An alarm at or after the collapse is none: the
collapse was *missed*. An alarm in a run that never collapsed while it was watched is *false*.

Persistently positive cosines are "ballistic drift": Song et al. 2026, https://arxiv.org/abs/2607.01083.
"""

from __future__ import annotations

import math

import numpy as np
import pandas as pd

from analysis.measures.collapse import Collapse, Criteria
from analysis.measures.recovery import trailing_mean

COSINE = "gradient_cosine"
"""Column of `updates`: cosine of this update's gradient and the one before."""


def alarm_update(updates: pd.DataFrame, criteria: Criteria) -> float:
    """Version at which the alarm goes off; infinite if it never does, NaN if no cosine was measured."""
    if COSINE not in updates.columns:
        return math.nan
    cosines = updates[COSINE].to_numpy(dtype=float)
    known = np.isfinite(cosines)
    if not known.any():
        return math.nan
    versions = updates["version"].to_numpy(dtype=float)[known]
    means = trailing_mean(versions, cosines[known], criteria.alarm_window_updates)
    # A mean of fewer updates than the window is not the mean that was registered.
    whole = versions - versions[0] + 1 >= criteria.alarm_window_updates
    above = versions[whole & (means > criteria.alarm_cosine)]
    return float(above[0]) if len(above) else math.inf


def alarm_outcomes(updates: pd.DataFrame, event: Collapse, criteria: Criteria) -> dict[str, float]:
    """Per-run scalars; NaN wherever the question does not arise.

    `alarm_update`: NaN if the alarm never went off. `alarm_lead_updates`: from the alarm to the collapse, if
    it came before. `false_alarm` and `missed_collapse`: 0 or 1, of runs without and with a collapse.
    """
    alarm = alarm_update(updates, criteria)
    unknown = math.isnan(alarm)
    before = alarm < event.update
    return {
        "alarm_update": alarm if math.isfinite(alarm) else math.nan,
        "alarm_lead_updates": event.update - alarm if event.happened and before else math.nan,
        "false_alarm": math.nan if unknown or event.happened else float(math.isfinite(alarm)),
        "missed_collapse": math.nan if unknown or not event.happened else float(not before),
    }
