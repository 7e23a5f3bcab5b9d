"""A run folder of ours as a part of a log."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pandas as pd

from analysis.audit.log import Source, Strange
from analysis.audit.reading.file import Part
from analysis.audit.reading.series import Spell
from analysis.audit.reading.tokens import TokenSums
from analysis.runs import load_run
from analysis.systems.columns import COLUMNS
from analysis.systems.plain import POLICYLAG
from analysis.tables.by_update import by_update
from simulator.eventlog import SCHEMAS


def read_run(folder: Path) -> Part:
    """Read one run folder."""
    run = load_run(folder)
    table = by_update(run)
    known = {*SCHEMAS["updates"].names, *POLICYLAG.metrics}
    numeric = run.updates.select_dtypes("number").columns
    return Part(
        system=POLICYLAG,
        updates=table[[name for name in table.columns if name in COLUMNS]],
        tokens=TokenSums().table(),
        strange=Strange(not_finite=_not_finite(table)),
        source=Source(
            path=folder,
            what="run folder of PolicyLag",
            records=len(run.updates),
            counted_by="version",
            unknown=tuple(sorted(set(map(str, numeric)) - known)),
        ),
    )


def _not_finite(table: pd.DataFrame) -> dict[str, Spell]:
    """Infinities anywhere; NaN only in loss and gradient norm, which every update has if any has."""
    found = {}
    for name in table.columns:
        values = table[name].to_numpy(dtype=float)
        wrong = np.isinf(values)
        if name in ("loss", "grad_norm") and np.isfinite(values).any():
            wrong |= np.isnan(values)
        if wrong.any():
            at = table["update"].to_numpy(dtype=float)[wrong]
            found[str(name)] = Spell(count=int(wrong.sum()), first=float(at.min()), last=float(at.max()))
    return found
