"""How do long-run means of one run read? Lines for a terminal, and numbers for JSON."""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Final

from analysis.statistics.steady_state import SteadyState

_CALLED: Final = {
    "mean_lag": "lag (updates)",
    "trainer_idle": "trainer waits",
    "engine_idle": "engines wait",
    "trained_tokens_per_s": "trained tokens/s",
}


def steady_text(found: Mapping[str, SteadyState]) -> str:
    """A line a measure with its 95 % interval, or why it has none; empty for none."""
    if not found:
        return ""
    width = max(len(_CALLED[name]) for name in found)
    return "\n".join(
        ["", "", "in the long run, warm-up left out (MSER-5), 95 % interval from batch means:"]
        + [f"{_CALLED[name]:{width}}  {_words(state)}" for name, state in found.items()]
    )


def steady_numbers(found: Mapping[str, SteadyState]) -> dict[str, object]:
    """The same by name; what is not known is left out."""
    return {
        name: {
            key: value
            for key, value in {
                "estimate": state.interval.estimate,
                "low": state.interval.low,
                "high": state.interval.high,
                "batches": state.interval.n,
                "values_left_out": state.warm_up,
                "correlation": state.correlation,
                "note": state.note,
            }.items()
            if not (value == "" or (isinstance(value, float) and math.isnan(value)))
        }
        for name, state in found.items()
    }


def _words(state: SteadyState) -> str:
    interval = state.interval
    if state.note:
        return f"{interval.estimate:.4g}, no interval: {state.note}"
    return (
        f"{interval.estimate:.4g} [{interval.low:.4g}, {interval.high:.4g}], first {state.warm_up} left out"
    )
