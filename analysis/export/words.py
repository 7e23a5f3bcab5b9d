"""What does another system call our numbers, and in which unit does it log them?

The table is the one by which an audit reads (`analysis.systems`), turned round, so that what is written is
read back as it was: the name in use, and the sign of that system.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from types import MappingProxyType
from typing import Final, final

from analysis.systems.columns import PREFIX
from analysis.systems.plain import POLICYLAG
from analysis.systems.prime_rl import PRIME_RL
from analysis.systems.skyrl import SKYRL
from analysis.systems.system import System
from analysis.systems.verl import VERL


@final
@dataclass(frozen=True, slots=True, kw_only=True)
class Words:
    """The words of one system."""

    system: System
    step: str
    """Its name for the number of an update."""
    names: Mapping[str, str]
    """Our name -> its name."""
    wrapped: str | None = None
    """What holds the metrics in a JSON record; None if they stand beside the step."""
    prefix: str = PREFIX
    """Before a name of ours that it has none for."""

    def name(self, ours: str) -> str:
        return self.names.get(ours, f"{self.prefix}{ours}")

    def sign(self, ours: str) -> float:
        return -1.0 if self.names.get(ours) in self.system.negated else 1.0


def _in_use(system: System) -> Mapping[str, str]:
    names: dict[str, str] = {}
    for theirs, ours in system.metrics.items():
        names.setdefault(ours, theirs)
    return MappingProxyType(names)


WORDS: Final[Mapping[str, Words]] = {
    "policylag": Words(system=POLICYLAG, step="update", names={}, prefix=""),
    "verl": Words(system=VERL, step="step", names=_in_use(VERL), wrapped="data"),
    "prime-rl": Words(system=PRIME_RL, step="step", names=_in_use(PRIME_RL)),
    "skyrl": Words(system=SKYRL, step="trainer/global_step", names=_in_use(SKYRL)),
}
"""By the name that a user gives. Records have the layout of the system's own logger: verl's file logger wraps
them, prime-rl's monitor does not, and SkyRL's step is that of its tracker."""
