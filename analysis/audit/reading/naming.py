"""Whose log is it, which of its names are ours, and by which does it count? Told from the first records."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Final, final

from analysis.audit.reading.lines import Record
from analysis.systems.columns import KNOWN, PREFIX
from analysis.systems.known import SYSTEMS
from analysis.systems.plain import PLAIN
from analysis.systems.system import System

UPDATE_NAMES: Final = (
    "update",
    "trainer/global_step",
    "training/global_step",
    "train/global_step",
    "global_step",
    "step",
    "Step",
    "_step",
    "iteration",
    "Train step",
)
"""By which logs count, the most telling first."""
_PANEL: Final = " - "
"""Between a run's name and a metric's in the columns that a web page exports."""


@final
@dataclass(frozen=True, slots=True, kw_only=True)
class Naming:
    """How one log's names are read."""

    system: System
    update: str | None
    """Its name for the number of an update; None if it has none, and records are counted."""
    aliases: Mapping[str, str] = field(default_factory=dict)

    def column(self, theirs: str) -> str | None:
        """Our name for one of theirs; None if it is not known."""
        if theirs.endswith(("__MIN", "__MAX")):
            return None
        name = theirs.rsplit(_PANEL, 1)[-1]
        found = self.aliases.get(theirs) or self.aliases.get(name) or metric(self.system, name)
        own = name.removeprefix(PREFIX)
        return found or (own if own in KNOWN else None)

    def sign(self, theirs: str) -> float:
        return -1.0 if theirs.rsplit(_PANEL, 1)[-1] in self.system.negated else 1.0


def metric(system: System, name: str) -> str | None:
    """What a system's own table says of a name, with or without a prefix of its logger."""
    candidates = [name, *(name.removeprefix(prefix) for prefix in system.prefixes)]
    return next((system.metrics[one] for one in candidates if one in system.metrics), None)


def naming(sample: Iterable[Record], aliases: Mapping[str, str]) -> Naming:
    """Read the names of a log.

    Args:
        sample: its first records, flat.
        aliases: the user's: their name -> ours.
    """
    seen: Counter[str] = Counter(name for record in sample for name in record)
    bare: Counter[str] = Counter()
    for name, count in seen.items():
        bare[name.rsplit(_PANEL, 1)[-1]] += count
    return Naming(system=_system(list(bare)), update=_update(seen, aliases), aliases=aliases)


def _system(names: Sequence[str]) -> System:
    scores = {system.name: sum(metric(system, name) is not None for name in names) for system in SYSTEMS}
    # Of two systems that share names, the one that knows a name more.
    best = max(SYSTEMS, key=lambda system: scores[system.name])
    # One name proves nothing if it is one that anybody would choose, as "loss".
    told = [name for name in names if metric(best, name) is not None and ("/" in name or name.count("_") > 1)]
    return best if told else PLAIN


def _update(seen: Counter[str], aliases: Mapping[str, str]) -> str | None:
    given = [name for name in seen if aliases.get(name) == "update"]
    found = given or [name for name in UPDATE_NAMES if name in seen]
    return max(found, key=lambda name: (seen[name], -found.index(name)), default=None)
