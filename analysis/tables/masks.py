"""Which share of the tokens lost its gradient at each pair of settings, by the sign of the advantage?"""

from __future__ import annotations

from typing import Final, Literal

import numpy as np
import pandas as pd

from analysis.measures.outcomes import token_mean
from analysis.tables.factors import column_of
from analysis.tables.means import mean_over_seeds

Lost = Literal["masked", "clipped"]
SIGNS: Final = ("positive", "negative")
COLUMNS: Final = ("x", "y", "sign", "mean", "low", "high", "n")


def masks_by_sign(
    updates: pd.DataFrame,
    outcomes: pd.DataFrame,
    *,
    x: str,
    y: str,
    of: Lost = "masked",
    rng: np.random.Generator,
) -> pd.DataFrame:
    """One row a pair of levels and sign: the share of all tokens, mean over each run's tokens, then seeds.

    Args:
        updates: of the runs, with arm and seed, and `masked_positive_fraction` and the like. Where signs were
            not told apart, `masked_fraction` is taken, and the sign is `all`.
        outcomes: the runs that count, with the factors x and y.

    Returns:
        Columns x, y, sign, mean, low, high, n; pairs of which nothing is known are left out.
    """
    signed = {sign: f"{of}_{sign}_fraction" for sign in SIGNS}
    names = signed if set(signed.values()) <= set(updates.columns) else {"all": f"{of}_fraction"}
    by_run = dict(iter(updates.groupby(["arm", "seed"], sort=False)))
    rows: list[dict[str, object]] = []
    for levels, own in outcomes.groupby([column_of(outcomes, x), column_of(outcomes, y)], sort=True):
        runs = [by_run[key] for key in zip(own["arm"], own["seed"], strict=True) if key in by_run]
        for sign, name in names.items():
            found = mean_over_seeds(pd.Series([token_mean(run, name) for run in runs], dtype=float), rng=rng)
            if found["n"]:
                rows.append({"x": levels[0], "y": levels[1], "sign": sign, **found})
    return pd.DataFrame(rows, columns=list(COLUMNS))
