"""What does a check say, and what does it need?"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Final, Literal, TypeAlias, final

from analysis.audit.limits import Limits
from analysis.audit.log import Log
from analysis.systems.system import System

Severity = Literal["info", "warning", "problem"]
BOUND: Final = "a bound (--lag-bound)"
SEVERITIES: Final[tuple[Severity, ...]] = ("info", "warning", "problem")


@final
@dataclass(frozen=True, slots=True, kw_only=True)
class Finding:
    """One thing that is so, with its evidence."""

    check: str
    severity: Severity
    what: str
    evidence: Mapping[str, float]
    """Numbers by name, with their unit in it."""
    n: int
    """How many updates, tokens or rollouts stand behind it."""
    of: str = "updates"
    where: tuple[float, float] | None = None
    """First and last update of it; None for the whole log."""
    change: str = ""
    """What to change, in the system's words; empty if nothing is."""


Find: TypeAlias = Callable[[Log, Limits], list[Finding]]


@final
@dataclass(frozen=True, slots=True, kw_only=True)
class Check:
    """One question that is asked of a log."""

    name: str
    question: str
    needs: tuple[tuple[str, ...], ...]
    """Sets of columns (or other things that a log can have), of which one must be there whole."""
    find: Find

    def missing(self, log: Log, limits: Limits) -> str:
        """What is not there, each way that would do; empty if the check can be made."""

        def is_there(name: str) -> bool:
            return limits.lag_bound is not None if name == BOUND else log.has(name)

        lacking = [[name for name in way if not is_there(name)] for way in self.needs]
        if not all(lacking):
            return ""
        ways = [" and ".join(_in_both_words(name, log.system) for name in names) for names in lacking]
        return ", or ".join(dict.fromkeys(ways))


def _in_both_words(ours: str, system: System) -> str:
    """Our name, and what this system calls it, if it does."""
    theirs = next((theirs for theirs, name in system.metrics.items() if name == ours), None)
    return ours if theirs is None else f"{ours} ({theirs})"
