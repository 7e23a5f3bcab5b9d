"""How do rows become tables? They are taken while the run lasts, and become columns at its end."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from itertools import chain
from typing import Any, Final, TypeAlias, final

import pyarrow as pa

from simulator.eventlog.log import EventLog
from simulator.eventlog.schemas import EPISODES, SCHEMAS, TIME, UPDATES

Row: TypeAlias = tuple[Any, ...]
_UPDATES: Final = frozenset(UPDATES.names)


@final
@dataclass(slots=True)
class Recorder:
    """Append-only: a row a fact, never changed. Hot loops append rows in schema order themselves, or
    give whole columns to `extend`."""

    rollouts: list[Row] = field(default_factory=list)
    segments: list[Row] = field(default_factory=list)
    intervals: list[Row] = field(default_factory=list)
    updates: list[dict[str, Any]] = field(default_factory=list)
    _blocks: dict[str, list[pa.Table]] = field(default_factory=dict)

    def add_rollout(self, **columns: Any) -> None:
        self.rollouts.append(_row("rollouts", columns))

    def add_segment(self, **columns: Any) -> None:
        self.segments.append(_row("segments", columns))

    def add_interval(self, **columns: Any) -> None:
        self.intervals.append(_row("intervals", columns))

    def add_update(self, metrics: Mapping[str, float] | None = None, **columns: Any) -> None:
        """Record one optimizer update; `metrics` become float columns beside the schema's.

        Errors:
            ValueError: a column that the schema lacks, or a metric named like one that it has.
        """
        if not columns.keys() <= _UPDATES:
            _row("updates", columns)
        if metrics:
            if clash := sorted(metrics.keys() & _UPDATES):
                raise ValueError(f"metrics may not be named like columns of updates: {clash}")
            columns.update((name, float(value)) for name, value in metrics.items())
        self.updates.append(columns)

    def extend(self, table: str, columns: Mapping[str, Any]) -> None:
        """Record many rows of `table` (not `updates`), given as columns of one length.

        `rollouts` may have those of `EPISODES`, too.

        Errors:
            ValueError: a column that the schema lacks, or lacks one.
        """
        schema = SCHEMAS[table]
        if table == "rollouts" and not columns.keys().isdisjoint(EPISODES.names):
            schema = pa.schema([*schema, *EPISODES])
        if set(columns) != set(schema.names):
            raise ValueError(f"{table} has columns {schema.names}, got {list(columns)}")
        arrays = [_array(columns[column.name], column.type) for column in schema]
        self._blocks.setdefault(table, []).append(pa.Table.from_arrays(arrays, schema=schema))

    def log(self) -> EventLog:
        """Everything recorded so far: single rows first, then blocks, each in the order of recording."""
        rows = {"rollouts": self.rollouts, "segments": self.segments, "intervals": self.intervals}
        return EventLog(
            updates=_updates_table(self.updates),
            **{
                name: pa.concat_tables(
                    [_table(rows[name], SCHEMAS[name]), *self._blocks.get(name, [])],
                    promote_options="default",
                )
                for name in rows
            },
        )


def _row(table: str, columns: Mapping[str, Any]) -> Row:
    names = SCHEMAS[table].names
    if unknown := sorted(set(columns) - set(names)):
        raise ValueError(f"{table} has no columns {unknown}; it has {names}")
    return tuple(columns.get(name) for name in names)


def _array(values: Any, kind: pa.DataType) -> pa.Array:
    return values.cast(kind) if isinstance(values, pa.Array) else pa.array(values, type=kind)


def _table(rows: Sequence[Row], schema: pa.Schema) -> pa.Table:
    columns = list(zip(*rows, strict=True)) or [()] * len(schema)
    return pa.Table.from_arrays(
        [pa.array(values, type=column.type) for values, column in zip(columns, schema, strict=True)],
        schema=schema,
    )


def _updates_table(rows: Sequence[Mapping[str, Any]]) -> pa.Table:
    # An update without some metric (a critic-only one, say) has a null there.
    metrics = sorted(set(chain.from_iterable(rows)) - set(UPDATES.names))
    schema = pa.schema([*UPDATES, *(pa.field(name, TIME) for name in metrics)])
    return _table([tuple(row.get(name) for name in schema.names) for row in rows], schema)
