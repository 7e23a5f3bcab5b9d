"""Many records, some of the same update, become one row an update; what was strange about their order is
kept.

Memory is a float for each update and known column: unknown names are only listed, texts are never held.
"""

from __future__ import annotations

import math
from array import array
from dataclasses import dataclass, field
from typing import Final, final

import numpy as np
import pandas as pd

from analysis.audit.reading.numbers import is_sound
from analysis.systems.columns import COLUMNS

MAX_NAMES: Final = 10_000


@final
@dataclass(frozen=True, slots=True, kw_only=True)
class Spell:
    """How often something happened, and between which updates."""

    count: int
    first: float
    last: float

    def again(self, update: float, times: int = 1) -> Spell:
        return Spell(count=self.count + times, first=min(self.first, update), last=max(self.last, update))


@final
@dataclass(frozen=True, slots=True, kw_only=True)
class Step:
    """A counter that went back."""

    counter: str
    before: float
    after: float


@final
@dataclass(slots=True, kw_only=True)
class Series:
    """The fold: `add` each record, then `table`."""

    not_finite: dict[str, Spell] = field(default_factory=dict)
    """Columns in which NaN, an infinity or a number beyond all bounds was recorded."""
    rewritten: Spell | None = None
    """Values that were logged again for the same update, and differ."""
    back: list[Step] = field(default_factory=list)
    unknown: set[str] = field(default_factory=set)
    _row: dict[float, int] = field(default_factory=dict)
    _columns: dict[str, array[float]] = field(default_factory=dict)
    _previous: float = -math.inf
    _highest: float = -math.inf
    _version: float = -math.inf
    _replaying: bool = False

    def add(self, update: float, values: dict[str, float]) -> None:
        """One record; of a value that comes twice the later one counts, as it does after a resume."""
        if update < self._previous:
            self.back.append(Step(counter="update", before=self._previous, after=update))
            self._replaying = True
        self._previous = update
        self._replaying = self._replaying and update <= self._highest
        self._highest = max(self._highest, update)
        version = values.get("version", math.nan)
        if version < self._version:
            self.back.append(Step(counter="version", before=self._version, after=version))
        self._version = version if math.isfinite(version) else self._version
        row = self._row.setdefault(update, len(self._row))
        for name, value in values.items():
            if is_sound(value):
                self._write(name, row, update, value)
            else:
                known = self.not_finite.get(name)
                self.not_finite[name] = (
                    known.again(update) if known else Spell(count=1, first=update, last=update)
                )

    def _write(self, name: str, row: int, update: float, value: float) -> None:
        column = self._columns.setdefault(name, array("d"))
        column.extend([math.nan] * (row + 1 - len(column)))
        old = column[row]
        if name in COLUMNS and not math.isnan(old) and old != value and not self._replaying:
            known = self.rewritten
            self.rewritten = known.again(update) if known else Spell(count=1, first=update, last=update)
        column[row] = value

    def table(self) -> pd.DataFrame:
        """One row an update, in their order; NaN where a column has nothing."""
        columns = {"update": np.fromiter(self._row, dtype=float, count=len(self._row))}
        for name, values in self._columns.items():
            whole = np.full(len(self._row), np.nan)
            whole[: len(values)] = np.asarray(values)
            columns[name] = whole
        return pd.DataFrame(columns).sort_values("update", kind="stable", ignore_index=True)
