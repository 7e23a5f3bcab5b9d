"""Many records, some of the same update, become one row an update; what was strange about their order is
kept.

Memory is a float for each row (`analysis.audit.reading.row_of`) and known column: unknown names are listed,
texts are never held. A row of several updates holds their means, of largest and smallest values the extreme.
"""

from __future__ import annotations

import math
from array import array
from dataclasses import dataclass, field, replace
from typing import Final, final

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from analysis.audit.reading.numbers import is_sound
from analysis.audit.reading.row_of import RowOf
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
    """A counter that went back, for the first time."""

    counter: str
    before: float
    after: float
    times: int = 1


_LARGEST: Final = frozenset({"lag_max", "reward_max"})
_SMALLEST: Final = frozenset({"reward_min"})


@final
@dataclass(slots=True, kw_only=True)
class Series:
    """The fold: `add` each record, then `table`."""

    not_finite: dict[str, Spell] = field(default_factory=dict)
    """Columns in which NaN, an infinity or a number beyond all bounds was recorded."""
    rewritten: Spell | None = None
    """Values that were logged again for the same update, and differ; not seen once a row is of several."""
    back: dict[str, Step] = field(default_factory=dict)
    """By counter."""
    unknown: set[str] = field(default_factory=set)
    rows: RowOf = field(default_factory=RowOf)
    _columns: dict[str, array[float]] = field(default_factory=dict)
    _counts: dict[str, array[float]] = field(default_factory=dict)
    """How many values a mean is of, once a row is of several updates."""
    _previous: float = -math.inf
    _highest: float = -math.inf
    _version: float = -math.inf
    _replaying: bool = False

    def add(self, update: float, values: dict[str, float]) -> None:
        """One record; of a value that comes twice the later one counts, as it does after a resume."""
        if update < self._previous:
            self._went_back("update", self._previous, update)
            self._replaying = True
        self._previous = update
        self._replaying = self._replaying and update <= self._highest
        self._highest = max(self._highest, update)
        version = values.get("version", math.nan)
        if version < self._version:
            self._went_back("version", self._version, version)
        self._version = version if math.isfinite(version) else self._version
        row = self.rows.place(update)
        if self.rows.is_full:
            self._merge()
            row = self.rows.place(update)
        for name, value in values.items():
            if is_sound(value):
                self._write(name, row, update, value)
            else:
                known = self.not_finite.get(name)
                self.not_finite[name] = (
                    known.again(update) if known else Spell(count=1, first=update, last=update)
                )

    def _went_back(self, counter: str, before: float, after: float) -> None:
        known = self.back.get(counter)
        self.back[counter] = (
            replace(known, times=known.times + 1)
            if known
            else Step(counter=counter, before=before, after=after)
        )

    def _write(self, name: str, row: int, update: float, value: float) -> None:
        column = self._columns.get(name)
        if column is None:
            column = self._columns[name] = array("d")
        if len(column) <= row:
            column.extend([math.nan] * (row + 1 - len(column)))
        old = column[row]
        if self.rows.every > 1:
            column[row] = self._together(name, row, old, value)
            return
        if old != value and not math.isnan(old) and name in COLUMNS and not self._replaying:
            known = self.rewritten
            self.rewritten = known.again(update) if known else Spell(count=1, first=update, last=update)
        column[row] = value

    def _together(self, name: str, row: int, old: float, value: float) -> float:
        counts = self._counts.setdefault(name, array("d"))
        counts.extend([0.0] * (row + 1 - len(counts)))
        counts[row] += 1
        if math.isnan(old):
            return value
        if name in _LARGEST:
            return max(old, value)
        return min(old, value) if name in _SMALLEST else old + (value - old) / counts[row]

    def _merge(self) -> None:
        """Neighbouring rows become one."""
        old = len(self.rows)
        new = self.rows.merge()
        for name, values in self._columns.items():
            whole = _padded(values, old, math.nan)
            known = np.isfinite(whole)
            counts = _padded(self._counts[name], old, 0.0) if name in self._counts else known.astype(float)
            total = np.bincount(new, weights=counts)
            if name in _LARGEST or name in _SMALLEST:
                pick = np.fmax if name in _LARGEST else np.fmin
                merged = np.full(len(total), math.nan)
                pick.at(merged, new, whole)
            else:
                sums = np.bincount(new, weights=np.where(known, whole, 0.0) * counts)
                merged = np.divide(sums, total, out=np.full(len(total), math.nan), where=total > 0)
            self._columns[name], self._counts[name] = array("d", merged), array("d", total)

    def table(self) -> pd.DataFrame:
        """One row an update (or several), in their order; NaN where a column has nothing."""
        columns = {"update": self.rows.updates()}
        for name, values in self._columns.items():
            columns[name] = _padded(values, len(self.rows), math.nan)
        return pd.DataFrame(columns).sort_values("update", kind="stable", ignore_index=True)


def _padded(values: array[float], length: int, filler: float) -> NDArray[np.float64]:
    whole = np.full(length, filler)
    whole[: len(values)] = np.asarray(values)
    return whole
