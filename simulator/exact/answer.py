"""What was asked about bias, worked out: a table, and another of bounds if asked."""

from __future__ import annotations

from typing import Any

import pandas as pd

from simulator.exact.ask import Asking
from simulator.exact.bias import sweep, table
from simulator.exact.world import DRIFTS
from simulator.progress import progress


def answer(asked: Asking) -> tuple[pd.DataFrame, pd.DataFrame | None]:
    """Bias and variance by estimator and lag; and by the bounds of clip and mask, if asked for."""
    given: dict[str, Any] = {
        "lags": asked.lags,
        "worlds": asked.worlds,
        "seed": asked.seed,
        "drift": DRIFTS[asked.drift],
        "into_batch": asked.into_batch,
    }
    with progress(asked.worlds * (1 + asked.sweep), "worlds", silent=asked.silent) as advance:
        found = table(asked.compositions, **given, advance=advance)
        return found, sweep(**given, advance=advance) if asked.sweep else None
