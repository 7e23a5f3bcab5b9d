"""How long are the answers that were trained on, beside all that were generated?"""

from __future__ import annotations

from typing import Final

import numpy as np
import pandas as pd

from analysis.tables.factors import column_of
from analysis.tables.means import mean_over_seeds

COLUMNS: Final = ("name", "generated", "trained", "ratio", "low", "high", "n")


def length_bias_table(outcomes: pd.DataFrame, *, by: str = "arm", rng: np.random.Generator) -> pd.DataFrame:
    """One row a setting: mean tokens generated and trained on, the mean of their ratio over runs, interval.

    Args:
        outcomes: one row a run (`measures.lengths.length_bias`).

    Returns:
        Columns name, generated, trained, ratio, low, high, n; settings without a ratio are left out.
    """
    rows: list[dict[str, object]] = []
    for name, own in outcomes.groupby(column_of(outcomes, by), sort=False):
        found = mean_over_seeds(own["length_ratio"], rng=rng)
        if found["n"]:
            rows.append(
                {
                    "name": str(name),
                    "generated": float(own["generated_length_tokens"].mean()),
                    "trained": float(own["trained_length_tokens"].mean()),
                    "ratio": found["mean"],
                    "low": found["low"],
                    "high": found["high"],
                    "n": int(found["n"]),
                }
            )
    return pd.DataFrame(rows, columns=list(COLUMNS))
