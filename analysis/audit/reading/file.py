"""One file becomes one part of a log: whose it is, its updates, its rollouts, and what was strange in it."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from itertools import islice
from pathlib import Path
from typing import Final, final

import pandas as pd

from analysis.audit.log import Source, Strange
from analysis.audit.reading.containers import Container, container
from analysis.audit.reading.flat import flat
from analysis.audit.reading.forms import Form, form_of
from analysis.audit.reading.identities import Identities
from analysis.audit.reading.lines import CHUNK, Record, Tally
from analysis.audit.reading.naming import Naming, naming
from analysis.audit.reading.numbers import is_sound, number
from analysis.audit.reading.rollouts import RolloutSums
from analysis.audit.reading.series import MAX_NAMES, Series
from analysis.systems.derive import derive
from analysis.systems.plain import PLAIN
from analysis.systems.system import System

_SAMPLE: Final = 50
"""Records from which a log's names are read."""


@final
@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Part:
    """What one file holds."""

    system: System
    updates: pd.DataFrame
    tokens: pd.DataFrame
    strange: Strange
    source: Source


def read_file(
    path: Path, aliases: Mapping[str, str], identities: Identities | None = None, *, chunk: int = CHUNK
) -> Part:
    """Read a file in bounded memory.

    Args:
        aliases: their name -> ours, before what is known of the system.
        identities: of the rollouts of the files before; those of this one are added.
        chunk: bytes at once.

    Raises:
        ValueError: it holds no record, or is of no sort that is known.
    """
    file = container(path, chunk=chunk)
    sample = [dict(record) for record in islice(file.read(Tally()), _SAMPLE)]
    if not sample:
        raise ValueError(f"{path} holds no record that can be read")
    forms = [form_of(record, aliases) for record in sample]
    found = [form for form in forms if form is not None]
    if found and 2 * len(found) >= len(forms):
        return _read_rollouts(path, file, found[0], aliases, identities or Identities())
    return _read_updates(path, file, naming(map(flat, sample), aliases))


def _read_updates(path: Path, file: Container, names: Naming) -> Part:
    tally, series = Tally(), Series()
    ours: dict[str, str | None] = {}
    known: dict[str, tuple[str, float]] = {}
    for place, record in enumerate(map(flat, file.read(tally)), start=1):
        update = float(place) if names.update is None else number(record.get(names.update))
        if update is None or not is_sound(update):
            continue
        values: dict[str, float] = {}
        for theirs, value in record.items():
            if theirs == names.update:
                continue
            if theirs not in ours and len(ours) < MAX_NAMES:
                ours[theirs] = names.column(theirs)
                if (column := ours[theirs]) is not None:
                    known[theirs] = (column, names.sign(theirs))
            if theirs in known:
                if (found := number(value)) is not None:
                    column, sign = known[theirs]
                    # Of two names of one thing in a record the first counts.
                    values.setdefault(column, sign * found)
            elif (
                len(series.unknown) < MAX_NAMES and theirs not in series.unknown and number(value) is not None
            ):
                series.unknown.add(theirs)
        if values:
            series.add(update, values)
    source = Source(
        path=path,
        what=f"{file.sort}, {_whose(names.system)}",
        records=tally.records,
        broken=tally.broken,
        first_broken=tally.first_broken,
        counted_by=names.update,
        updates_a_row=series.rows.every,
        unknown=tuple(sorted(series.unknown)),
    )
    strange = Strange(
        not_finite=series.not_finite, rewritten=series.rewritten, back=tuple(series.back.values())
    )
    return Part(
        system=names.system,
        updates=derive(series.table()),
        tokens=RolloutSums().tokens.table(),
        strange=strange,
        source=source,
    )


def _read_rollouts(
    path: Path, file: Container, form: Form, aliases: Mapping[str, str], identities: Identities
) -> Part:
    tally, sums = Tally(), RolloutSums(identities=identities)
    for rollout in _converted(file, form, aliases, tally):
        update = number(rollout.get("update"))
        sums.add(rollout, update if update is not None and is_sound(update) else 0.0)
    updates = sums.table()
    counted = len(updates) > 1 or bool((updates["update"] != 0).any())
    source = Source(
        path=path,
        what=f"{file.sort}, {form.name}",
        records=tally.records,
        broken=tally.broken,
        first_broken=tally.first_broken,
        counted_by="the update of each rollout" if counted else None,
        updates_a_row=sums.rows.every,
    )
    strange = Strange(
        rewarded=sums.tokens.rewarded,
        reward_elsewhere=sums.tokens.reward_elsewhere,
        tokens_not_finite=sums.tokens.not_finite,
        uneven=sums.tokens.uneven,
        seconds={status: (count, total) for status, (count, total) in sums.seconds.items()},
    )
    return Part(
        system=form.system, updates=updates, tokens=sums.tokens.table(), strange=strange, source=source
    )


def _converted(file: Container, form: Form, aliases: Mapping[str, str], tally: Tally) -> Iterator[Record]:
    """Rollouts in our names; the user's aliases come first."""
    for record in file.read(tally):
        if not form.fits(record):
            tally.broken += 1
            continue
        converted = form.convert(record)
        if converted:
            named = {ours: record[theirs] for theirs, ours in aliases.items() if theirs in record}
            yield {**converted, **named}


def _whose(system: System) -> str:
    return "no system's names" if system is PLAIN else f"names of {system.name}"
