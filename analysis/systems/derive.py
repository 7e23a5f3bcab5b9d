"""Which columns follow from what a log holds in their place, and what stands in place of a column?

Reading: shares from seconds, counts from totals. Writing: the same the other way round, where it has one.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

import numpy as np
import pandas as pd

from analysis.systems.columns import COLUMNS


def derive(table: pd.DataFrame) -> pd.DataFrame:
    """The table with columns only; what stood in place of one is used for it and left out.

    Done for each file on its own: the seconds of a step are the trainer's in one file, the engines' in
    another.
    """
    made = {
        "trainer_idle_share": _share(table, "trainer_wait_s", "step_s"),
        "engine_idle_share": _share(table, "engine_wait_s", "step_s"),
        "zero_variance_share": _no_signal(table),
        "refused": _minus(table, "update_successful"),
        "dropped_stale": _increase(table, "dropped_stale_total"),
        "dropped_share": _ratio_of_increases(table),
        "masked_positive": _product(table, "masked_that_are_positive", "masked_fraction"),
        "masked_negative": _product(table, "masked_that_are_negative", "masked_fraction"),
    }
    kept = table[[name for name in table.columns if name in COLUMNS]].copy()
    for name, values in made.items():
        if values is not None and name not in kept.columns:
            kept[name] = values
    return kept


def in_place(table: pd.DataFrame) -> dict[str, pd.Series[float]]:
    """What a log may hold in place of a column of the table, by the name of the part."""
    made = {
        "signal_share": _minus(table, "zero_variance_share"),
        "update_successful": _minus(table, "refused"),
        "masked_that_are_positive": _part(table, "masked_positive", "masked_fraction"),
        "masked_that_are_negative": _part(table, "masked_negative", "masked_fraction"),
    }
    return {name: values for name, values in made.items() if values is not None}


REPLACES: Final[Mapping[str, str]] = {
    "signal_share": "zero_variance_share",
    "update_successful": "refused",
    "masked_that_are_positive": "masked_positive",
    "masked_that_are_negative": "masked_negative",
}
"""A part that says all that a column does -> the column."""


def _share(table: pd.DataFrame, part: str, whole: str) -> pd.Series[float] | None:
    if not {part, whole} <= set(table.columns):
        return None
    return (table[part] / table[whole].where(table[whole] > 0)).clip(0.0, 1.0)


def _no_signal(table: pd.DataFrame) -> pd.Series[float] | None:
    if "signal_share" in table.columns:
        return (1.0 - table["signal_share"]).clip(0.0, 1.0)
    if {"all_failed_share", "all_solved_share"} <= set(table.columns):
        return table["all_failed_share"] + table["all_solved_share"]
    return None


def _minus(table: pd.DataFrame, name: str) -> pd.Series[float] | None:
    return 1.0 - table[name] if name in table.columns else None


def _product(table: pd.DataFrame, part: str, whole: str) -> pd.Series[float] | None:
    return table[part] * table[whole] if {part, whole} <= set(table.columns) else None


def _part(table: pd.DataFrame, part: str, whole: str) -> pd.Series[float] | None:
    """A share of a share; of nothing it is 0, as systems log it."""
    if not {part, whole} <= set(table.columns):
        return None
    return (table[part] / table[whole].where(table[whole] > 0)).where(table[whole] != 0, 0.0)


def _increase(table: pd.DataFrame, name: str) -> pd.Series[float] | None:
    """A total's steps; a total that goes back began anew."""
    if name not in table.columns:
        return None
    steps = table[name].diff()
    return steps.where(~(steps < 0), table[name])


def _ratio_of_increases(table: pd.DataFrame) -> pd.Series[float] | None:
    dropped, generated = _increase(table, "dropped_stale_total"), _increase(table, "generated_total")
    if dropped is None or generated is None:
        return None
    return (dropped / generated.where(generated > 0)).clip(0.0, 1.0).replace(np.inf, np.nan)
