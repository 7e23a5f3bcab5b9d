"""From what the user names to one log: files and folders are read one by one and joined by update."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from functools import reduce
from pathlib import Path
from typing import Final

import pandas as pd

from analysis.audit.log import Log, Source, Strange
from analysis.audit.reading.file import Part, read_file
from analysis.audit.reading.forms import FIELDS
from analysis.audit.reading.identities import Identities
from analysis.audit.reading.lines import CHUNK
from analysis.audit.reading.own_run import read_run
from analysis.audit.reading.series import Spell
from analysis.audit.reading.tokens import SUMS
from analysis.runs import is_run
from analysis.systems.columns import COLUMNS
from analysis.systems.plain import PLAIN
from analysis.systems.system import System

MAX_FILES: Final = 10_000


def load(paths: Sequence[Path], aliases: Mapping[str, str] | None = None, *, chunk: int = CHUNK) -> Log:
    """One run's log.

    Args:
        paths: files, run folders, or folders of files. A file in a folder that is no log is left out and
        listed;
            a file that was named must be one.
        aliases: their name -> ours, for columns and for fields of rollouts.

    Raises:
        ValueError: nothing can be read, an alias is for a name that is not ours, or two runs were given.
        OSError: a path does not exist.
    """
    given = dict(aliases or {})
    _check(given)
    parts: list[Part] = []
    left_out: list[Source] = []
    identities = Identities()
    for path in paths:
        for file, named in _files(path):
            try:
                parts.append(
                    read_run(file) if file.is_dir() else read_file(file, given, identities, chunk=chunk)
                )
            except (ValueError, OSError) as wrong:
                if named:
                    raise
                left_out.append(Source(path=file, what=f"left out: {wrong}"))
    if not parts:
        raise ValueError(f"{', '.join(map(str, paths))}: no log in it")
    if not any(len(part.updates) or len(part.tokens) for part in parts):
        seen = sorted({name for part in parts for name in part.source.unknown})
        names = f": {', '.join(seen[:10])}" if seen else ""
        raise ValueError(
            f"{parts[0].source.path} has no name that is known here{names}; say what they are with --alias"
        )
    if sum(part.source.what == "run folder of PolicyLag" for part in parts) > 1:
        raise ValueError("more than one run folder: an audit is of one run")
    return Log(
        system=_system(parts),
        updates=_join([part.updates for part in parts]),
        tokens=_sum_tokens([part.tokens for part in parts]),
        strange=replace(
            reduce(_add, (part.strange for part in parts), Strange()),
            trained_again=identities.again,
            sampled=identities.sampled,
        ),
        sources=(*(part.source for part in parts), *left_out),
    )


def _check(aliases: Mapping[str, str]) -> None:
    ours = {*COLUMNS, *FIELDS}
    for theirs, name in aliases.items():
        if name not in ours:
            raise ValueError(
                f"alias {theirs}={name}: no column {name!r}; there are {', '.join(sorted(ours))}"
            )


def _files(path: Path) -> Iterator[tuple[Path, bool]]:
    """What is to be read for a path, and whether the user named it."""
    if not path.is_dir() or is_run(path):
        yield path, True
        return
    inside = sorted(path.rglob("*"), key=_in_order)
    runs = [one for one in inside if one.is_dir() and is_run(one)]
    if runs:
        yield from ((run, True) for run in runs)
        return
    files = [one for one in inside if one.is_file() and not one.name.startswith(".")]
    if len(files) > MAX_FILES:
        raise ValueError(f"{path} holds {len(files)} files: name those of one run")
    yield from ((file, False) for file in files)


def _in_order(path: Path) -> list[tuple[int, str]]:
    """As a reader sorts: 2.jsonl before 10.jsonl."""
    return [(int(part), "") if part.isdigit() else (-1, part) for part in re.split(r"(\d+)", str(path))]


def _system(parts: Sequence[Part]) -> System:
    """That of the most records, of those that are known."""
    records: dict[str, int] = {}
    for part in parts:
        if part.system is not PLAIN:
            records[part.system.name] = records.get(part.system.name, 0) + part.source.records
    if not records:
        return PLAIN
    best = max(records, key=lambda name: records[name])
    return next(part.system for part in parts if part.system.name == best)


def _join(tables: Sequence[pd.DataFrame]) -> pd.DataFrame:
    """Side by side by update; where two files know a column, the one that was named first counts."""
    together = pd.concat([table.astype(float) for table in tables], ignore_index=True)
    return together.groupby("update", as_index=False, sort=True).first()


def _sum_tokens(tables: Sequence[pd.DataFrame]) -> pd.DataFrame:
    return pd.concat(tables).groupby("lag", as_index=False)[list(SUMS)].sum()


def _add(one: Strange, other: Strange) -> Strange:
    not_finite = dict(one.not_finite)
    for name, spell in other.not_finite.items():
        not_finite[name] = _both(not_finite.get(name), spell) or spell
    seconds = dict(one.seconds)
    for status, (count, total) in other.seconds.items():
        before = seconds.get(status, (0.0, 0.0))
        seconds[status] = (before[0] + count, before[1] + total)
    return Strange(
        not_finite=not_finite,
        rewritten=_both(one.rewritten, other.rewritten),
        back=one.back + other.back,
        rewarded=one.rewarded + other.rewarded,
        reward_elsewhere=one.reward_elsewhere + other.reward_elsewhere,
        tokens_not_finite=one.tokens_not_finite + other.tokens_not_finite,
        uneven=one.uneven + other.uneven,
        seconds=seconds,
    )


def _both(one: Spell | None, other: Spell | None) -> Spell | None:
    if one is None or other is None:
        return one or other
    return Spell(
        count=one.count + other.count, first=min(one.first, other.first), last=max(one.last, other.last)
    )
