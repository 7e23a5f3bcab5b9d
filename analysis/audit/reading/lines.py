"""How is a text log read, whatever its size and encoding? Line by line; what cannot be parsed is counted.

A byte order mark says UTF-8 or UTF-16; without one it is UTF-8, and bytes that are not are replaced, so that
one bad name does not cost the rest. Gzip is seen by its first bytes.
"""

from __future__ import annotations

import csv
import gzip
import io
import json
import zlib
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import IO, Final, TypeAlias, cast, final

from pydantic_core import from_json

Record: TypeAlias = Mapping[str, object]

CHUNK: Final = 2**16
"""Bytes that are read at once; the result does not depend on it."""
MAX_LINE: Final = 2**26
"""Characters of a line beyond which it is taken for broken, so that memory stays bounded."""


@final
@dataclass(slots=True, kw_only=True)
class Tally:
    """What was read and what could not be, counted while reading."""

    records: int = 0
    broken: int = 0
    first_broken: int | None = None
    """Its line, from 1."""

    def refuse(self, line: int) -> None:
        self.broken += 1
        if self.first_broken is None:
            self.first_broken = line


def opened(path: Path, chunk: int = CHUNK) -> IO[str]:
    """The text of a file, ends of lines as they are."""
    with open(path, "rb") as stream:
        is_packed = stream.read(2) == b"\x1f\x8b"
    try:
        with gzip.open(path) if is_packed else open(path, "rb") as stream:
            head = stream.read(4)
    except (EOFError, zlib.error):
        raise ValueError(f"{path} is a broken gzip file") from None
    # Closed with what wraps it.
    raw = gzip.open(path) if is_packed else open(path, "rb", buffering=max(2, chunk))  # noqa: SIM115
    encoding = "utf-16" if head.startswith((b"\xff\xfe", b"\xfe\xff")) else "utf-8-sig"
    return io.TextIOWrapper(cast("IO[bytes]", raw), encoding=encoding, errors="replace", newline=None)


def text_lines(path: Path, *, chunk: int = CHUNK) -> Iterator[str]:
    """Lines with their ends; of one that is too long, only its beginning.

    A packed file that breaks off gives what is before, and then one line that is no record.
    """
    with opened(path, chunk) as stream:
        try:
            while line := stream.readline(MAX_LINE):
                yield line.replace("\x00", "")
                while len(line) == MAX_LINE and not line.endswith("\n"):
                    line = stream.readline(MAX_LINE)  # the rest of it
        except (EOFError, zlib.error):
            yield "the rest cannot be unpacked"


def json_records(path: Path, tally: Tally, *, chunk: int = CHUNK) -> Iterator[Record]:
    """The objects of a file with one JSON value a line (an array of objects gives each)."""
    for place, line in enumerate(text_lines(path, chunk=chunk), start=1):
        text = line.strip()
        if not text:
            continue
        try:
            value = json_value(text)
        except (ValueError, RecursionError):
            tally.refuse(place)
            continue
        for item in value if isinstance(value, list) else [value]:
            if isinstance(item, dict):
                tally.records += 1
                yield item
            else:
                tally.refuse(place)


def json_value(text: str) -> object:
    """What a JSON text says; NaN and infinities, which JSON has no words for, as Python writes them.

    Raises:
        ValueError: it is no JSON.
        RecursionError: it is nested too deeply.
    """
    try:
        return from_json(text, cache_strings="keys")
    except ValueError:
        # Half of a surrogate pair, deep nests, whole numbers of more than 4300 digits: as floats, then.
        return json.loads(text, parse_int=float)


def csv_records(path: Path, tally: Tally, *, chunk: int = CHUNK) -> Iterator[Record]:
    """The rows of a table with a header; a row of another length is broken."""
    rows = csv.reader(text_lines(path, chunk=chunk), delimiter=delimiter(path))
    header: Sequence[str] | None = None
    while True:
        try:
            row = next(rows)
        except StopIteration:
            return
        except csv.Error:
            tally.refuse(rows.line_num)
            continue
        if not row:
            continue
        if header is None:
            header = [name.strip() for name in row]
        elif len(row) != len(header):
            tally.refuse(rows.line_num)
        else:
            tally.records += 1
            yield dict(zip(header, row, strict=True))


def delimiter(path: Path) -> str:
    """What parts the names of the first line."""
    first = next((line for line in text_lines(path) if line.strip()), "")
    return max(",\t;", key=first.count)
