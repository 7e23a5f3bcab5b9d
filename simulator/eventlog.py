"""What happened, and when: the one vocabulary that simulated and real runs both write.

Four columnar tables, kept as Parquet beside a run's `config.json` and `meta.json`. Times are seconds
since the run began: simulated seconds in `simulator`, wall-clock seconds in `full_runs`. Versions
count optimizer updates. This module imports neither SimPy nor torch.

A `Recorder` takes rows while the run lasts; `Recorder.log()` ends in an `EventLog`, which can be
written, read back and fingerprinted.
"""

from __future__ import annotations

import json
import os
import shutil
import tempfile
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from itertools import chain
from pathlib import Path
from typing import Any, Final, Self, TypeAlias, final

import pyarrow as pa
import pyarrow.parquet as pq

from simulator.fingerprint import fingerprint

_ID, _COUNT, _TIME, _TEXT = pa.int64(), pa.int64(), pa.float64(), pa.string()

Row: TypeAlias = tuple[Any, ...]

ROLLOUTS: Final = pa.schema(
    {
        "rollout_id": _ID,
        "prompt_id": _ID,
        "group_id": _ID,
        "member": _COUNT,  # its place in the group, from 0
        "engine": _ID,  # the engine that sampled it
        "submitted_s": _TIME,  # asked for: the admission rule let it in
        "started_s": _TIME,  # got a slot: decoding began
        "finished_s": _TIME,
        "group_ready_s": _TIME,  # the slowest member of its group finished
        "enqueued_s": _TIME,  # entered the trainer's queue
        "consumed_s": _TIME,  # the trainer took it, or a rule dropped it
        "first_version": _COUNT,
        "last_version": _COUNT,
        "oldest_version": _COUNT,
        "consumed_version": _COUNT,  # trainer's, when training on it started, at the drop, or at the request
        "action_tokens": _COUNT,  # while in flight: the whole length that it will have
        "observation_tokens": _COUNT,
        "turns": _COUNT,
        "reward": _TIME,
        # trained | dropped | training | queued | waiting (for its group) | in_flight | validation
        "status": _TEXT,
        "reason": _TEXT,  # why it was dropped; a padded group has fewer trained rows than members
    }
)
EPISODES: Final = pa.schema(
    {
        "environment_s": _TIME,  # waiting for the environment to start and to work, before the last token
        "slot_wait_s": _TIME,  # waiting for a slot; decoding is finished_s - submitted_s less these two
        "judged_s": _TIME,  # its reward was known
    }
)
"""More columns of `rollouts` where these have environments; null for what did not finish."""
SEGMENTS: Final = pa.schema(
    {
        "rollout_id": _ID,
        "version": _COUNT,
        "start_token": _COUNT,
        "tokens": _COUNT,
        "start_s": _TIME,
        "end_s": _TIME,
    }
)
UPDATES: Final = pa.schema(
    {
        "version": _COUNT,  # the version that this update produced
        "wait_start_s": _TIME,  # the trainer began to wait for data
        "train_start_s": _TIME,
        "train_end_s": _TIME,
        "published_s": _TIME,  # engines hold it; null if never pushed
        "rollouts": _COUNT,
        "tokens": _COUNT,
    }
)
INTERVALS: Final = pa.schema(
    {
        "resource": _TEXT,  # trainer, engine-0/slot-3, ...
        "state": _TEXT,  # busy | idle
        "cause": _TEXT,  # policy_update, critic_update, push, no_batch, decode, gate_closed, ...
        "start_s": _TIME,
        "end_s": _TIME,
    }
)
SCHEMAS: Final[Mapping[str, pa.Schema]] = {
    "rollouts": ROLLOUTS,
    "segments": SEGMENTS,
    "updates": UPDATES,
    "intervals": INTERVALS,
}


@final
@dataclass(frozen=True, slots=True, kw_only=True)
class EventLog:
    """The four tables of one run. `updates` may carry more float columns: what the learner measured."""

    rollouts: pa.Table
    segments: pa.Table
    updates: pa.Table
    intervals: pa.Table

    def __post_init__(self) -> None:
        for name, schema in SCHEMAS.items():
            _check_columns(name, self.tables()[name].schema, schema)

    def tables(self) -> dict[str, pa.Table]:
        """The tables by name, in the order of `SCHEMAS`."""
        return {name: getattr(self, name) for name in SCHEMAS}

    def write(
        self,
        folder: Path,
        *,
        config: Mapping[str, Any] | None = None,
        meta: Mapping[str, Any] | None = None,
    ) -> None:
        """Write the tables, and `config.json` and `meta.json` if given, into a new or empty `folder`.

        All or nothing: the files are written beside it and renamed in one step.

        Errors:
            FileExistsError: `folder` exists and holds something.
        """
        folder = Path(folder)
        if folder.exists() and any(folder.iterdir()):
            raise FileExistsError(f"{folder} is not empty: a run is never written over another")
        folder.parent.mkdir(parents=True, exist_ok=True)
        unfinished = Path(tempfile.mkdtemp(prefix=f".{folder.name}-", dir=folder.parent))
        try:
            for name, table in self.tables().items():
                pq.write_table(table, unfinished / f"{name}.parquet", compression="zstd")
            for name, content in (("config", config), ("meta", meta)):
                if content is not None:
                    (unfinished / f"{name}.json").write_text(json.dumps(content, indent=2, sort_keys=True))
            unfinished.chmod(0o755)  # mkdtemp's folder is private to its owner
            os.replace(unfinished, folder)
        except BaseException:
            shutil.rmtree(unfinished, ignore_errors=True)
            raise

    @classmethod
    def read(cls, folder: Path) -> Self:
        """Read the tables that `write` left in `folder`.

        Errors:
            FileNotFoundError: naming the folder and the table that is missing.
            ValueError: a table lacks a column, or has it in another type.
        """
        files = {name: Path(folder) / f"{name}.parquet" for name in SCHEMAS}
        for name, file in files.items():
            if not file.is_file():
                raise FileNotFoundError(f"{folder} holds no run: {name}.parquet is missing")
        return cls(**{name: pq.ParquetFile(file).read() for name, file in files.items()})

    def digest(self) -> str:
        """SHA-256 over names, types and values of every column: equal logs have equal digests.

        It depends on content alone: not on the chunks of a table, the process or its hash seed.
        """
        return fingerprint(self.tables())


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
        _row("updates", columns)
        metrics = metrics or {}
        if clash := sorted(set(metrics) & set(UPDATES.names)):
            raise ValueError(f"metrics may not be named like columns of updates: {clash}")
        self.updates.append({**columns, **{name: float(value) for name, value in metrics.items()}})

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
    schema = pa.schema([*UPDATES, *(pa.field(name, _TIME) for name in metrics)])
    return _table([tuple(row.get(name) for name in schema.names) for row in rows], schema)


def _check_columns(table: str, found: pa.Schema, wanted: pa.Schema) -> None:
    for column in wanted:
        if column.name not in found.names:
            raise ValueError(f"{table} lacks the column {column.name}; it has {found.names}")
        if found.field(column.name).type != column.type:
            raise ValueError(
                f"{table}.{column.name} is {found.field(column.name).type}, the schema says {column.type}"
            )
