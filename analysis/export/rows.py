"""One record an update, in order: every number that was recorded of it, in a system's words.

Lag stays in optimizer updates, as in a system that makes one update a version: a row is an update here, so a
step and a version of the exported log are one, too. *Choice*; `updates_per_version` divides it for one that
makes several. What is NaN or infinite is left out. Where a system logs another number in place of one of ours
(`analysis.systems.derive`), it gets that.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Final, final

import pandas as pd

from analysis.export.words import Words
from analysis.runs import Run
from analysis.systems.derive import REPLACES, in_place
from analysis.systems.plain import POLICYLAG
from analysis.tables.by_update import by_update

_LAGS: Final = ("lag_mean", "lag_max", "lag_newest_mean")
_SECONDS: Final = ("wait_start_s", "train_start_s", "train_end_s", "published_s")


@final
@dataclass(frozen=True, slots=True, kw_only=True)
class Row:
    """One update."""

    update: int
    at_s: float
    """Seconds since the run began; the number of the update where seconds are none."""
    values: dict[str, float]
    """By name, finite."""


def rows(run: Run, words: Words, *, updates_per_version: float = 1.0) -> list[Row]:
    """The records of a run.

    Args:
        updates_per_version: by which lags are divided; more than 0.
    """
    table = canonical(run)
    lags = [name for name in _LAGS if name in table.columns]
    table[lags] = table[lags] / updates_per_version
    for part, values in in_place(table).items():
        if part in words.names and REPLACES[part] not in words.names:
            table = table.drop(columns=REPLACES[part]).assign(**{part: values})
    named = {name: (words.name(name), words.sign(name)) for name in table.columns if name != "update"}
    times = run.updates["version" if run.clock == "imposed" else "train_end_s"]
    return [
        Row(
            update=int(row["update"]),
            at_s=float(at),
            values={
                theirs: sign * float(row[ours])
                for ours, (theirs, sign) in named.items()
                if math.isfinite(row[ours])
            },
        )
        for at, row in zip(times, table.to_dict("records"), strict=True)
    ]


def canonical(run: Run) -> pd.DataFrame:
    """Every number of each update under our names: those of all logs first, then what only we record."""
    table = by_update(run)
    own = run.updates.select_dtypes("number").columns
    renamed = {*POLICYLAG.metrics, "version", *table.columns}
    renamed |= set(_SECONDS) if run.clock == "imposed" else set()
    rest = run.updates[[name for name in own if name not in renamed]].astype(float)
    return pd.concat([table, rest.reset_index(drop=True)], axis="columns")
