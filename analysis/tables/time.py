"""Curves over time that are lined up at an event: the update of a collapse, or of a shift."""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from analysis.measures.alarm import COSINE
from analysis.measures.collapse import Criteria
from analysis.measures.recovery import trailing_mean
from analysis.statistics.intervals import band

Floats = NDArray[np.float64]
COLUMNS = ("line", "x", "mean", "low", "high", "n")


def cosine_table(
    updates: pd.DataFrame, outcomes: pd.DataFrame, criteria: Criteria, *, back: int, rng: np.random.Generator
) -> pd.DataFrame:
    """Trailing mean of the gradients' cosine, by updates from the collapse; of runs without one, flat.

    Args:
        updates: columns arm, seed, version and the cosine.
        outcomes: one row a run.
        back: updates before the collapse at which the curves begin.

    Returns:
        Columns line, x, mean, low, high, n. Of the collapsed the interval is that of the mean over seeds; of
        the others it holds 80 % of all their values, at every x the same.
    """
    window = criteria.alarm_window_updates
    at = np.arange(-back, 1, dtype=float)
    runs = zip(outcomes["arm"], outcomes["seed"], strict=True)
    ended = dict(zip(runs, outcomes["collapsed_at_update"].astype(float), strict=True))
    before: list[Floats] = []
    others: list[Floats] = []
    for (arm, seed), own in updates.groupby(["arm", "seed"], sort=False):
        key = (arm, seed)
        known = own.loc[np.isfinite(own[COSINE].to_numpy(dtype=float))]
        if key not in ended or known.empty:
            continue
        versions = known["version"].to_numpy(dtype=float)
        means = trailing_mean(versions, known[COSINE].to_numpy(dtype=float), window)
        whole = versions - versions[0] + 1 >= window
        versions, means = versions[whole], means[whole]
        collapse = ended[key]
        if math.isnan(collapse):
            others.append(means)
        elif len(versions):
            wanted = at + collapse
            inside = (wanted >= versions[0]) & (wanted <= versions[-1])
            before.append(np.where(inside, np.interp(wanted, versions, means), np.nan))
    parts: list[pd.DataFrame] = []
    if before:
        parts.append(_line(f"collapsed (n = {len(before)})", at, np.stack(before), rng))
    if others and len(values := np.concatenate(others)):
        low, high = np.quantile(values, [0.1, 0.9])
        line = f"never collapsed, 80 % of values (n = {len(others)})"
        parts.append(
            pd.DataFrame(
                {"line": line, "x": at, "mean": np.median(values), "low": low, "high": high, "n": len(others)}
            )
        )
    return pd.concat(parts, ignore_index=True) if parts else pd.DataFrame(columns=list(COLUMNS))


def shift_table(
    updates: pd.DataFrame,
    line_of: Mapping[tuple[Any, Any], str],
    criteria: Criteria,
    *,
    back: int,
    ahead: int,
    rng: np.random.Generator,
) -> pd.DataFrame:
    """Score around the shifts, by updates since the shift: each seed's mean over shifts, then over seeds.

    Args:
        updates: columns arm, seed, version and the score.
        line_of: which line a run belongs to, by (arm, seed).
        back, ahead: updates before and after a shift that are shown.

    Returns:
        Columns arm (the line), x, mean, low, high, n.
    """
    at = np.arange(-back, ahead + 1, dtype=float)
    lines: dict[str, list[Floats]] = {str(line): [] for line in dict.fromkeys(line_of.values())}
    for (arm, seed), own in updates.groupby(["arm", "seed"], sort=False):
        key = (arm, seed)
        known = own.loc[np.isfinite(own[criteria.metric].to_numpy(dtype=float))]
        if key not in line_of or known.empty:
            continue
        versions = known["version"].to_numpy(dtype=float)
        values = known[criteria.metric].to_numpy(dtype=float)
        around = []
        for shift in criteria.shift_updates:
            wanted = at + shift
            inside = (wanted >= versions[0]) & (wanted <= versions[-1])
            around.append(np.where(inside, np.interp(wanted, versions, values), np.nan))
        stacked = np.stack(around)
        counts = np.isfinite(stacked).sum(axis=0)
        mean = np.nansum(stacked, axis=0) / np.where(counts > 0, counts, 1)
        lines[line_of[key]].append(np.where(counts > 0, mean, np.nan))
    parts = [_line(line, at, np.stack(runs), rng) for line, runs in lines.items() if runs]
    table = pd.concat(parts, ignore_index=True) if parts else pd.DataFrame(columns=list(COLUMNS))
    return table.rename(columns={"line": "arm"})


def _line(name: str, at: Floats, runs: Floats, rng: np.random.Generator) -> pd.DataFrame:
    n = np.isfinite(runs).sum(axis=0)
    mean = np.nansum(runs, axis=0) / np.where(n > 0, n, 1)
    low, high = band(runs, rng=rng)
    table = pd.DataFrame({"line": name, "x": at, "mean": mean, "low": low, "high": high, "n": n})
    return table.loc[table["n"] > 0]
