"""The tables of statistics that AReaL prints, step by step, among whatever else a console holds.

A step ends with "Train step 7/100 done."; then come one or more tables of names and numbers, drawn with box
characters, several pairs side by side (`tabulate_stats` and `stats_logger.py`,
https://github.com/inclusionAI/AReaL). Older versions print a table for each minibatch: their mean counts.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Final

from analysis.audit.reading.lines import CHUNK, Record, Tally, text_lines
from analysis.audit.reading.numbers import number

STEP: Final = "Train step"
_DONE: Final = re.compile(rf"{STEP} (\d+)/\d+ done")
_COLOUR: Final = re.compile(r"\x1b\[[0-9;]*m")
_BAR: Final = "│"


def is_console(lines: Iterable[str]) -> bool:
    """Does one of these lines end a step?"""
    return any(_DONE.search(line) for line in lines)


def console_records(path: Path, tally: Tally, *, chunk: int = CHUNK) -> Iterator[Record]:
    """One record a step: its number and the means of what its tables hold."""
    step: int | None = None
    found: dict[str, list[float]] = {}
    for place, line in enumerate(text_lines(path, chunk=chunk), start=1):
        if (done := _DONE.search(line)) is not None:
            yield from _record(step, found, tally)
            step, found = int(done[1]), {}
        elif _BAR in line:
            whole = _COLOUR.sub("", line).strip()
            if not whole.endswith(_BAR):
                tally.refuse(place)  # cut off
            cells = [cell.strip() for cell in whole.split(_BAR)][1:-1]
            for name, value in zip(cells[::2], cells[1::2], strict=False):
                if name and (known := number(value)) is not None:
                    found.setdefault(name, []).append(known)
    yield from _record(step, found, tally)


def _record(step: int | None, found: dict[str, list[float]], tally: Tally) -> Iterator[Record]:
    if step is not None and found:
        tally.records += 1
        yield {STEP: step, **{name: sum(values) / len(values) for name, values in found.items()}}
