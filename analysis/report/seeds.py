"""How many seeds would make the intervals of a study as narrow as wanted? Lines for a terminal."""

from __future__ import annotations

import math

import numpy as np
import pandas as pd

from analysis.statistics.seeds import half_width, seeds_for_half_width


def seeds_table(outcomes: pd.DataFrame, wanted: float) -> pd.DataFrame:
    """One row an arm, and one for its paired difference from the first: what it has, and what it would need.

    Args:
        outcomes: one row a run; what counts is `final_score`.
        wanted: half-width of the 95 % interval (Student's t), in the score's unit, above 0.

    Returns:
        Index the arm or the pair; columns seeds, half_width, needed; NaN below two seeds.
    """
    scores = outcomes.pivot(index="seed", columns="arm", values="final_score")
    arms = list(dict.fromkeys(outcomes["arm"]))
    series = {str(arm): scores[arm] for arm in arms}
    series |= {f"{arm} - {arms[0]}": scores[arm] - scores[arms[0]] for arm in arms[1:]}
    return pd.DataFrame({name: _row(values.dropna().to_numpy(), wanted) for name, values in series.items()}).T


def seeds_text(outcomes: pd.DataFrame, wanted: float) -> str:
    """The table in words, a line a row."""
    table = seeds_table(outcomes, wanted)
    width = max(map(len, table.index))
    lines = [
        f"{name:{width}}  {_needed(row['needed'])} for +-{wanted:g}; n = {row['seeds']:.0f} gives"
        f" {_half(row['half_width'])}"
        for name, row in table.iterrows()
    ]
    return "\n".join(["seeds for a 95 % interval of the final score, if seeds spread as they did:", *lines])


def _row(values: np.ndarray, wanted: float) -> dict[str, float]:
    n = len(values)
    if n < 2:
        return {"seeds": n, "half_width": math.nan, "needed": math.nan}
    spread = float(values.std(ddof=1))
    needed = seeds_for_half_width(spread, wanted)
    return {"seeds": n, "half_width": half_width(spread, n), "needed": needed}


def _needed(seeds: float) -> str:
    if math.isnan(seeds):
        return "unknown"
    return "over a million" if math.isinf(seeds) else f"{seeds:.0f}"


def _half(width: float) -> str:
    return "no interval" if math.isnan(width) else f"+-{width:.3g}"
