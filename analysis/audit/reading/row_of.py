"""Which row does an update belong to? One for each, until there are too many: then one for two, for four, ...

So memory is bounded however long a log is. Trends and levels are of means of many updates anyhow.
"""

from __future__ import annotations

import math
from bisect import bisect_right
from dataclasses import dataclass, field
from typing import Final, final

import numpy as np
from numpy.typing import NDArray

MAX_ROWS: Final = 2**14
"""Rows beyond which neighbours are merged. Few runs make as many updates. *Choice*."""


@final
@dataclass(slots=True, kw_only=True)
class RowOf:
    """The fold: `place` each update; `merge` whenever it `is_full`, and move what stands in the rows."""

    every: int = 1
    """Updates a row."""
    limit: int = MAX_ROWS
    _rows: dict[float, int] = field(default_factory=dict)
    """While a row is an update."""
    _starts: list[float] = field(default_factory=list)
    """Then: the first update of each row, rising."""
    _held: int = 0
    """Updates in the last row."""
    _highest: float = -math.inf

    def __len__(self) -> int:
        return len(self._starts) or len(self._rows)

    @property
    def is_full(self) -> bool:
        return len(self) > self.limit

    def place(self, update: float) -> int:
        """The row of an update; a new one if there is none yet."""
        if not self._starts:
            return self._rows.setdefault(update, len(self._rows))
        if update <= self._highest:
            return max(0, bisect_right(self._starts, update) - 1)
        self._highest = update
        if self._held == self.every:
            self._starts.append(update)
            self._held = 0
        self._held += 1
        return len(self._starts) - 1

    def merge(self) -> NDArray[np.int64]:
        """Two neighbours become one: the new row of each old one."""
        updates = self.updates()
        order = np.argsort(updates, kind="stable")
        new = np.empty(len(updates), dtype=np.int64)
        new[order] = np.arange(len(updates)) // 2
        last = self._held if self._starts else 1
        self._held = last if len(updates) % 2 else self.every + last
        self._starts = updates[order][::2].tolist()
        self._highest = max(self._highest, float(updates.max()))
        self._rows = {}
        self.every *= 2
        return new

    def updates(self) -> NDArray[np.float64]:
        """The (first) update of each row."""
        return np.array(self._starts or list(self._rows), dtype=float)
