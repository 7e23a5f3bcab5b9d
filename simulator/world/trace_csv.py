"""What lengths are in a user's CSV file, and which rows were refused?"""

from __future__ import annotations

import csv
import gzip
import math
import zlib
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Final, TextIO, final

import numpy as np

from simulator.world.lengths import LONGEST_TOKENS, Empirical

_WEIGHTS: Final = "prob"


@final
@dataclass(frozen=True, slots=True, kw_only=True)
class RefusedRow:
    line: int
    """Line of the file, from 1, the header included."""
    value: str | None
    reason: str


@final
@dataclass(frozen=True, slots=True, kw_only=True)
class LengthTrace:
    law: Empirical
    rows: int
    """Rows that were accepted."""
    refused: tuple[RefusedRow, ...]
    weights_column: str | None


def read_lengths(
    path: Path | str,
    column: str = "tokens",
    weights_column: str | None = None,
    *,
    max_tokens: int | None = None,
) -> LengthTrace:
    """Read lengths in tokens from a CSV file with a header, plain or gzipped, with any line ends.

    Args:
        column: holds the lengths.
        weights_column: holds how often each length occurs. None takes `prob` if the file has such a column
            (a probability mass function), and counts every row once otherwise.
        max_tokens: longer answers are cut here.

    Errors:
        FileNotFoundError: no such file.
        ValueError: the column is not there; or no row was accepted, naming how many and the first reasons.
    """
    path = Path(path)
    try:
        with _open(path) as file:
            reader = csv.DictReader(file, strict=True)
            header = reader.fieldnames or []
            if weights_column is None and _WEIGHTS in header and column != _WEIGHTS:
                weights_column = _WEIGHTS
            for name in (column, weights_column):
                if name is not None and header.count(name) != 1:
                    found = "no column" if name not in header else "more than one column"
                    raise ValueError(f"{path} has {found} {name!r}; it has {list(header)}")
            values, weights, refused = _parse(reader, column, weights_column)
    except (UnicodeDecodeError, gzip.BadGzipFile, zlib.error, EOFError, csv.Error) as broken:
        raise ValueError(f"{path} is not a CSV file in UTF-8, plain or .gz: {broken}") from broken
    if not values:
        reasons = "; ".join(f"line {row.line}: {row.value!r} is {row.reason}" for row in refused[:3])
        raise ValueError(f"{path}: none of {len(refused)} rows has a usable length in {column!r}. {reasons}")
    law = Empirical(
        values_tokens=np.array(values, dtype=np.int64),
        weights=None if weights_column is None else np.array(weights),
        max_tokens=max_tokens,
    )
    return LengthTrace(law=law, rows=len(values), refused=tuple(refused), weights_column=weights_column)


def _open(path: Path) -> TextIO:
    # utf-8-sig: spreadsheets write a byte order mark, which would become part of the first column's name.
    if path.suffix == ".gz":
        return gzip.open(path, "rt", encoding="utf-8-sig", newline="")
    return path.open(encoding="utf-8-sig", newline="")


def _parse(
    reader: csv.DictReader[str], column: str, weights_column: str | None
) -> tuple[list[int], list[float], list[RefusedRow]]:
    values: list[int] = []
    weights: list[float] = []
    refused: list[RefusedRow] = []
    for row in reader:
        # Fields beyond the header gather under None: 1,234 without quotes is not a length of 1.
        reason = "followed by too many fields" if None in row else why_not_tokens(row[column])
        if reason is not None:
            refused.append(RefusedRow(line=reader.line_num, value=row[column], reason=reason))
            continue
        weight = "1" if weights_column is None else row[weights_column]
        if not _is_weight(weight):
            refused.append(RefusedRow(line=reader.line_num, value=weight, reason="not a weight"))
            continue
        values.append(int(float(row[column])))
        weights.append(float(weight))
    if values and not any(weights):
        raise ValueError(f"the weights in {weights_column!r} are all zero")
    largest = max(weights, default=1.0)  # only shares count, and sums must stay finite
    return values, [weight / largest for weight in weights], refused


def why_not_tokens(text: str | None) -> str | None:
    """Why `text` is not a length in tokens, or None if it is one. `12.0` is, `12.5` is not."""
    if text is None or not text.strip():
        return "missing"
    try:
        number = float(text.replace("_", "?"))  # 1_000 is Python's way to write a number, not a CSV's
    except ValueError:
        return "not a number"
    for wrong, reason in _faults(number):
        if wrong:
            return reason
    return None


def _faults(number: float) -> Iterator[tuple[bool, str]]:
    yield math.isnan(number), "NaN"
    yield math.isinf(number), "infinite"
    yield number < 0, "negative"
    yield number == 0, "zero"
    yield not number.is_integer(), "not a whole number"
    yield number > LONGEST_TOKENS, "too large"


def _is_weight(text: str | None) -> bool:
    try:
        return text is not None and 0 <= float(text) < math.inf
    except ValueError:
        return False
