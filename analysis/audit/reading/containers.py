"""What sort of file is this, by its content, and which records does it hold? The name is never asked."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from itertools import islice
from pathlib import Path
from typing import Final, TypeAlias, final

import pyarrow as pa
import pyarrow.parquet as pq

from analysis.audit.reading.console import console_records, is_console
from analysis.audit.reading.events import event_records, is_event_file
from analysis.audit.reading.lines import (
    CHUNK,
    Record,
    Tally,
    csv_records,
    delimiter,
    json_records,
    json_value,
    opened,
    text_lines,
)

Reader: TypeAlias = Callable[[Tally], Iterator[Record]]
_HEAD: Final = 64
_LINES: Final = 20
_CONSOLE_LINES: Final = 5000
"""Lines of a console within which a first step must end. *Choice*."""
_BYTES_A_ROW: Final = 64
"""Chunks are given in bytes; of a Parquet file this many bytes are one row."""


@final
@dataclass(frozen=True, slots=True, kw_only=True)
class Container:
    """A file whose sort is known."""

    sort: str
    read: Reader
    """Its records from the first; may be asked for again."""


def container(path: Path, *, chunk: int = CHUNK) -> Container:
    """The file as records.

    Raises:
        ValueError: it is empty, or of no sort that is known.
        OSError: it cannot be read.
    """
    with open(path, "rb") as stream:
        head = stream.read(_HEAD)
    if not head:
        raise ValueError(f"{path} is empty")
    if head.startswith(b"PAR1"):
        return Container(sort="Parquet", read=lambda tally: _parquet_records(path, tally, chunk))
    if is_event_file(head):
        return Container(sort="TensorBoard events", read=lambda tally: event_records(path, tally))
    return _text(path, chunk)


def _text(path: Path, chunk: int) -> Container:
    first = [line.strip() for line in islice(text_lines(path), _LINES) if line.strip()]
    if not first:
        raise ValueError(f"{path} is empty")
    if first[0].startswith(("{", "[")):
        whole = None if _is_lines(first) else _whole_document(path, first[0])
        if whole is not None:
            return Container(sort="JSON", read=lambda tally: _counted(whole, tally))
    elif is_console(islice(text_lines(path), _CONSOLE_LINES)):
        return Container(
            sort="console of AReaL", read=lambda tally: console_records(path, tally, chunk=chunk)
        )
    if any(line.startswith("{") for line in first):
        return Container(sort="JSON lines", read=lambda tally: json_records(path, tally, chunk=chunk))
    header = first[0].split(delimiter(path))
    if len(header) > 1 and all(name.isprintable() for name in header):
        return Container(sort="table of text", read=lambda tally: csv_records(path, tally, chunk=chunk))
    raise ValueError(f"{path} is no log that can be read: no JSON, CSV, Parquet or TensorBoard events")


def _is_lines(first: list[str]) -> bool:
    """Is one of the lines after the first a record of its own, so that the file need not be read whole?"""
    return first[0].startswith("{") and any(line.startswith("{") and _parsed(line) for line in first[1:])


def _parsed(text: str) -> object:
    try:
        return json_value(text)
    except (ValueError, RecursionError):
        return None


def _whole_document(path: Path, first: str) -> list[Record] | None:
    """The records of a file that is one JSON document: an array, or the state of Hugging Face's trainer."""
    value = _parsed(first)
    if isinstance(value, dict) and "log_history" not in value:
        return None  # a record a line
    if value is None or not isinstance(value, dict | list):
        with opened(path) as stream:
            try:
                value = json.load(stream, parse_int=float)
            except (ValueError, RecursionError):
                return None
    if isinstance(value, dict):
        value = value.get("log_history", [value])
    return [item for item in value if isinstance(item, dict)] if isinstance(value, list) else None


def _counted(records: list[Record], tally: Tally) -> Iterator[Record]:
    for record in records:
        tally.records += 1
        yield record


def _parquet_records(path: Path, tally: Tally, chunk: int) -> Iterator[Record]:
    try:
        with pq.ParquetFile(path) as file:
            for batch in file.iter_batches(batch_size=max(1, chunk // _BYTES_A_ROW)):
                for row in batch.to_pylist():
                    tally.records += 1
                    yield row
    except pa.ArrowException as wrong:
        raise ValueError(f"{path} is a broken Parquet file: {wrong}") from None
