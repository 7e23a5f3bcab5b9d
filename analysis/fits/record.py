"""What is a fitted quantity? A number with an interval and its runs, or why there is none."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import final

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from analysis.statistics.intervals import Interval
from analysis.statistics.resampling import seed_weights

MINIMUM_EVENTS = 5
"""Fewer runs of a kind than this are not fitted (*choice*)."""


@final
@dataclass(frozen=True, slots=True, kw_only=True)
class Fit:
    """One fitted quantity."""

    interval: Interval
    """`n` counts runs; all NaN if the quantity cannot be had."""
    runs: str
    """How many runs, and how many of what happened to them, in words."""
    seeds: int
    """Of the arm that has fewest."""
    note: str = ""


@final
@dataclass(frozen=True, slots=True, kw_only=True)
class Draw:
    """How the interval is made."""

    rng: np.random.Generator
    resamples: int
    confidence: float


def no_fit(why: str, table: pd.DataFrame, draw: Draw) -> Fit:
    """A quantity that these runs cannot give."""
    nothing = math.nan
    return Fit(
        interval=Interval(
            estimate=nothing,
            low=nothing,
            high=nothing,
            n=len(table),
            confidence=draw.confidence,
            method="none",
        ),
        runs=f"{len(table)} runs",
        seeds=fewest_seeds(table),
        note=f"cannot be had: {why}",
    )


def fewest_seeds(table: pd.DataFrame, used: pd.DataFrame | None = None) -> int:
    """Runs of the arm that has fewest, among the arms that are used."""
    arms = table["arm"] if used is None else table["arm"].loc[table["arm"].isin(used["arm"])]
    return int(arms.value_counts().min()) if len(arms) else 0


def drawn_weights(table: pd.DataFrame, used: pd.DataFrame, draw: Draw) -> NDArray[np.float64]:
    """Weights of the runs that are used, when all seeds of every arm are drawn anew.

    Args:
        used: rows of `table`, with its index, which counts from 0.
    """
    return seed_weights(table["arm"], rng=draw.rng, resamples=draw.resamples)[:, used.index.to_numpy()]


def with_lag(table: pd.DataFrame) -> pd.DataFrame:
    """Runs with a lag in updates as `lag`: the factor, if lag was imposed, else the mean measured."""
    return table if "lag" in table.columns else table.assign(lag=table["mean_lag"])


def varies(values: pd.Series[float]) -> bool:
    """More than one value; what rounding tells apart is one."""
    known = values[np.isfinite(values)]
    return bool(len(known)) and bool(known.max() > known.min() * (1 + 1e-9))
