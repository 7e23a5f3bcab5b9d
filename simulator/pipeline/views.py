"""What does a workload see of a rollout? A row of the table, read when it is asked for."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from math import isnan
from typing import final, overload

from simulator.pipeline.rollout import Rollouts
from simulator.pipeline.weights import Segment


@final
class Rollout:
    """One attempt at an answer: a view of a row."""

    __slots__ = ("_table", "rollout_id")

    def __init__(self, table: Rollouts, rollout_id: int) -> None:
        self._table = table
        self.rollout_id = rollout_id

    @property
    def prompt_id(self) -> int:
        return self._table.place[self.rollout_id] // self._table.group_size

    @property
    def group_id(self) -> int:
        return self.prompt_id

    @property
    def member(self) -> int:
        return self._table.place[self.rollout_id] % self._table.group_size

    @property
    def engine(self) -> int:
        return self._table.engine[self.rollout_id]

    @property
    def action_tokens(self) -> int:
        return self._table.tokens[self.rollout_id]

    @property
    def started_s(self) -> float:
        return self._table.started_s[self.rollout_id]

    @property
    def finished_s(self) -> float | None:
        """None while it runs."""
        finished_s = self._table.finished_s[self.rollout_id]
        return None if isnan(finished_s) else finished_s

    @property
    def oldest_version(self) -> int:
        return self._table.oldest_version(self.rollout_id)

    @property
    def segments(self) -> tuple[Segment, ...]:
        """Which version sampled which tokens, in order; versions never decrease."""
        return self._table.segments(self.rollout_id)


@final
class Views(Sequence[Rollout]):
    """Rollouts by their ids; a view is made when it is asked for."""

    def __init__(self, table: Rollouts, ids: Sequence[int]) -> None:
        self.table = table
        self.ids = ids

    def __len__(self) -> int:
        return len(self.ids)

    @overload
    def __getitem__(self, index: int) -> Rollout: ...
    @overload
    def __getitem__(self, index: slice) -> Views: ...
    def __getitem__(self, index: int | slice) -> Rollout | Views:
        if isinstance(index, slice):
            return Views(self.table, self.ids[index])
        return Rollout(self.table, self.ids[index])


@final
@dataclass(frozen=True, slots=True, kw_only=True)
class Update:
    """One optimizer update that is about to start."""

    version: int
    """Of the trainer, before the update; lags are counted from here."""
    index_in_batch: int
    """0 for the first update on a batch."""
    rollouts: Sequence[Rollout]
    """Whole groups in order of arrival, members in order."""
    start_s: float
