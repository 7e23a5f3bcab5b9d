"""What does an audit look at? One run's tables, and what was strange while they were read."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import final

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from analysis.audit.reading.series import Spell, Step
from analysis.systems.system import System

Floats = NDArray[np.float64]


@final
@dataclass(frozen=True, slots=True, kw_only=True)
class Source:
    """One file or folder that was read, or could not be."""

    path: Path
    what: str
    """Its sort and its system; or why it was left out."""
    records: int = 0
    broken: int = 0
    first_broken: int | None = None
    counted_by: str | None = None
    """Its name for the number of an update."""
    updates_a_row: int = 1
    """More than one where a log is so long that neighbours were merged."""
    unknown: tuple[str, ...] = ()
    """Names of numbers that have no meaning here."""


@final
@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Strange:
    """What was seen while reading that no table shows."""

    not_finite: Mapping[str, Spell] = field(default_factory=dict)
    rewritten: Spell | None = None
    back: tuple[Step, ...] = ()
    trained_again: int = 0
    sampled: int = 0
    rewarded: int = 0
    reward_elsewhere: int = 0
    tokens_not_finite: int = 0
    uneven: int = 0
    seconds: Mapping[str, tuple[float, float]] = field(default_factory=dict)
    """Rollouts that were trained or dropped, and the seconds of their generation."""


@final
@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Log:
    """One run, from whatever files it left."""

    system: System
    updates: pd.DataFrame
    """One row an update, sorted: update and the columns (`analysis.systems.columns`) that are known."""
    tokens: pd.DataFrame
    """One row a lag: sums over tokens (`analysis.audit.reading.tokens`)."""
    strange: Strange
    sources: tuple[Source, ...]

    def column(self, name: str) -> tuple[Floats, Floats]:
        """The updates at which a column has a value, and the values."""
        if name not in self.updates.columns:
            return np.empty(0), np.empty(0)
        values = self.updates[name].to_numpy(dtype=float)
        known = np.isfinite(values)
        return self.updates["update"].to_numpy(dtype=float)[known], values[known]

    def has(self, name: str) -> bool:
        """Is anything known of a column, of "token log-probs", "token rewards" or "rollouts one by one"?"""
        return {
            "token log-probs": len(self.tokens) > 0,
            "token rewards": self.strange.rewarded > 0,
            "rollouts one by one": self.strange.sampled > 0,
            "seconds of sessions": bool(self.strange.seconds),
        }.get(name, len(self.column(name)[1]) > 0)
