"""Of what is each setting's mean lag made, and of what did the closed form expect it to be?"""

from __future__ import annotations

from typing import Final

import numpy as np
import pandas as pd

from analysis.measures.lag_split import PARTS
from analysis.tables.factors import column_of
from analysis.tables.means import mean_over_seeds

COLUMNS: Final = ("name", "who", *PARTS, "lag", "low", "high", "n")
_WHO: Final = {"measured": "settled", "predicted": "predicted"}


def lag_parts_table(outcomes: pd.DataFrame, *, by: str = "arm", rng: np.random.Generator) -> pd.DataFrame:
    """Two rows a setting, measured and predicted: means over its runs, the interval that of the lag measured.

    Args:
        outcomes: one row a run, with `measures.load.load_outcomes`.

    Returns:
        Columns name, who, those of `PARTS`, lag, low, high, n; runs whose lag was imposed are left out.
    """
    known = outcomes.loc[np.isfinite(outcomes["settled_lag"].to_numpy(dtype=float))]
    rows: list[dict[str, object]] = []
    for name, own in known.groupby(column_of(outcomes, by), sort=False):
        found = mean_over_seeds(own["settled_lag"], rng=rng)
        for who, prefix in _WHO.items():
            measured = who == "measured"
            rows.append(
                {
                    "name": str(name),
                    "who": who,
                    **{part: float(own[f"{prefix}_lag_{part}"].mean()) for part in PARTS},
                    "lag": float(own[f"{prefix}_lag"].mean()),
                    "low": found["low"] if measured else np.nan,
                    "high": found["high"] if measured else np.nan,
                    "n": int(found["n"]),
                }
            )
    return pd.DataFrame(rows, columns=list(COLUMNS))
