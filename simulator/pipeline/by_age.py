"""Which of an engine's rollouts is the youngest, and has to leave when keys and values fill it?"""

from __future__ import annotations

from collections.abc import Iterable
from math import isnan
from typing import final

from simulator.pipeline.rollout import Rollouts


@final
class ByAge:
    """Running rollouts as in the engine's heap, the youngest last, among some that have ended."""

    __slots__ = ("_entries", "_most", "_table")

    def __init__(self, table: Rollouts) -> None:
        self._table = table
        self._entries: list[tuple[float, int, int]] = []
        self._most = 64
        """Entries, before those of what has ended are taken out."""

    def add(self, entry: tuple[float, int, int]) -> None:
        """A rollout gets a slot."""
        # Whoever had to leave is younger than all that stayed, and comes back before anything new starts:
        # so slots are given in order of age.
        entries = self._entries
        if len(entries) > self._most:
            ended = self._table.finished_s
            entries[:] = [old for old in entries if isnan(ended[old[1]])]
            self._most = 2 * len(entries) + 64
        entries.append(entry)

    def pop(self) -> tuple[float, int, int]:
        """The youngest that has not ended leaves."""
        entry = self._entries.pop()
        while not isnan(self._table.finished_s[entry[1]]):
            entry = self._entries.pop()
        return entry

    def keep(self, entries: Iterable[tuple[float, int, int]]) -> None:
        """No others run any longer."""
        stay = set(entries)
        self._entries = [entry for entry in self._entries if entry in stay]
