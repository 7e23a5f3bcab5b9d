"""Ask every question of a log: what was found, and what could not be asked."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final, final

from analysis.audit.checks import (
    clipping,
    collapse,
    counters,
    drift,
    groups,
    idle,
    lag,
    lengths,
    rewards,
    spread,
    temperature,
)
from analysis.audit.finding import SEVERITIES, Check, Finding, Severity
from analysis.audit.limits import Limits
from analysis.audit.log import Log

CHECKS: Final[tuple[Check, ...]] = (
    *lag.CHECKS,
    *spread.CHECKS,
    *drift.CHECKS,
    *temperature.CHECKS,
    *clipping.CHECKS,
    *lengths.CHECKS,
    *groups.CHECKS,
    *rewards.CHECKS,
    *idle.CHECKS,
    *collapse.CHECKS,
    *counters.CHECKS,
)


@final
@dataclass(frozen=True, slots=True, kw_only=True)
class NotAsked:
    """A question that a log cannot answer."""

    check: str
    question: str
    missing: str
    """What is not there."""


@final
@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Audit:
    """What an audit found."""

    log: Log
    findings: tuple[Finding, ...]
    """The most severe first."""
    not_asked: tuple[NotAsked, ...]
    asked: int

    def count(self, severity: Severity) -> int:
        return sum(finding.severity == severity for finding in self.findings)

    @property
    def worst(self) -> Severity | None:
        return self.findings[0].severity if self.findings else None

    @property
    def verdict(self) -> str:
        """One sentence."""
        problems, warnings = self.count("problem"), self.count("warning")
        if not problems and not warnings:
            said = "nothing is wrong with what could be checked"
        else:
            worst = self.findings[0]
            counted = [_many(problems, "problem")] * bool(problems) + [_many(warnings, "warning")] * bool(
                warnings
            )
            said = f"{' and '.join(counted)}; first, {worst.what}"
        n, total = len(self.log.updates), self.asked + len(self.not_asked)
        return f"{said[0].upper()}{said[1:]}. {self.asked} of {total} checks, {_many(n, 'update')}."


def examine(log: Log, limits: Limits | None = None) -> Audit:
    """Every check that the log can answer."""
    limits = limits or Limits()
    findings: list[Finding] = []
    not_asked: list[NotAsked] = []
    for check in CHECKS:
        missing = check.missing(log, limits)
        if missing:
            not_asked.append(NotAsked(check=check.name, question=check.question, missing=missing))
        else:
            findings += check.find(log, limits)
    findings.sort(key=lambda finding: -SEVERITIES.index(finding.severity))
    return Audit(
        log=log,
        findings=tuple(findings),
        not_asked=tuple(not_asked),
        asked=len(CHECKS) - len(not_asked),
    )


def _many(n: int, what: str) -> str:
    return f"{n} {what}" + "s" * (n != 1)
