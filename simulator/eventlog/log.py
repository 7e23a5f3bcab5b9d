"""The four tables of one run: checked, written, read back, fingerprinted."""

from __future__ import annotations

import json
import os
import shutil
import tempfile
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final, Self, final

import pyarrow as pa
import pyarrow.parquet as pq

from simulator.eventlog.schemas import SCHEMAS
from simulator.fingerprint import fingerprint

_ROW_GROUP: Final = 2**17
"""Rows that are encoded at once: bounds the memory that writing takes."""


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
                pq.write_table(
                    table, unfinished / f"{name}.parquet", compression="zstd", row_group_size=_ROW_GROUP
                )
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


def _check_columns(table: str, found: pa.Schema, wanted: pa.Schema) -> None:
    for column in wanted:
        if column.name not in found.names:
            raise ValueError(f"{table} lacks the column {column.name}; it has {found.names}")
        if found.field(column.name).type != column.type:
            raise ValueError(
                f"{table}.{column.name} is {found.field(column.name).type}, the schema says {column.type}"
            )
