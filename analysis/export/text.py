"""JSON lines, in the layout of a system's own logger, and tables with commas."""

from __future__ import annotations

import csv
import json
from collections.abc import Sequence
from typing import TextIO

from analysis.export.rows import Row
from analysis.export.words import Words


def write_jsonl(stream: TextIO, rows: Sequence[Row], words: Words) -> None:
    """One object an update."""
    for row in rows:
        metrics = row.values if words.wrapped is None else {words.wrapped: row.values}
        print(json.dumps({words.step: row.update, **metrics}, allow_nan=False), file=stream)


def write_csv(stream: TextIO, rows: Sequence[Row], words: Words) -> None:
    """A header, then one line an update; a cell is empty where there is no number."""
    names = dict.fromkeys(name for row in rows for name in row.values)
    writer = csv.DictWriter(stream, [words.step, *names], lineterminator="\n")
    writer.writeheader()
    writer.writerows({words.step: row.update, **row.values} for row in rows)
