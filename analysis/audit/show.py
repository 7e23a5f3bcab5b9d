"""An audit for a terminal of any width, or as one JSON object."""

from __future__ import annotations

import json
import math
from collections.abc import Mapping
from typing import Final

from rich.console import Console

from analysis.audit.examine import Audit
from analysis.audit.finding import Finding
from analysis.audit.log import Source
from analysis.systems.columns import COLUMNS

_NAMES: Final = 20
"""Unknown names that a terminal lists of each file."""


def show(audit: Audit, console: Console) -> None:
    """The verdict first, then each finding, what could not be asked, and what was read."""
    for line in text(audit).splitlines():
        indent = len(line) - len(line.lstrip())
        # Wrapped by hand: a second line of an item stands below its first.
        for part in _wrap(line.strip(), max(20, console.width - indent - 2)):
            console.print(" " * indent + part, markup=False, highlight=False, soft_wrap=True)
            indent = max(indent, 2)


def text(audit: Audit) -> str:
    """The same as one text, a line an item."""
    lines = [audit.verdict, ""]
    for finding in audit.findings:
        lines.append(f"{finding.severity}: {finding.what}")
        lines.append(f"  {_evidence(finding)}")
        if finding.change:
            lines.append(f"  change: {finding.change}")
    if audit.findings:
        lines.append("")
    if audit.not_asked:
        lines.append("not checked:")
        lines += [f"  {item.question} It lacks {item.missing}." for item in audit.not_asked]
        lines.append("")
    lines.append(f"lag: {audit.log.system.lag}")
    lines.append("read:")
    lines += [f"  {_source(source)}" for source in audit.log.sources]
    return "\n".join(lines)


def to_json(audit: Audit) -> str:
    """One object; numbers that are not finite are null."""
    log = audit.log
    content = {
        "verdict": audit.verdict,
        "worst": audit.worst,
        "system": log.system.name,
        "lag_definition": log.system.lag,
        "updates": len(log.updates),
        "columns": {name: COLUMNS[name] for name in log.updates.columns if name in COLUMNS},
        "findings": [
            {
                "check": finding.check,
                "severity": finding.severity,
                "what": finding.what,
                "evidence": _finite(finding.evidence),
                "n": finding.n,
                "of": finding.of,
                "where": list(finding.where) if finding.where else None,
                "change": finding.change,
            }
            for finding in audit.findings
        ],
        "not_checked": [
            {"check": item.check, "question": item.question, "missing": item.missing}
            for item in audit.not_asked
        ],
        "sources": [
            {
                "path": str(source.path),
                "what": source.what,
                "records": source.records,
                "broken": source.broken,
                "counted_by": source.counted_by,
                "updates_a_row": source.updates_a_row,
                "unknown": list(source.unknown),
            }
            for source in log.sources
        ],
    }
    return json.dumps(content, allow_nan=False)


def _evidence(finding: Finding) -> str:
    numbers = [f"{name.replace('_', ' ')} {value:.4g}" for name, value in finding.evidence.items()]
    where = "" if finding.where is None else f", updates {finding.where[0]:g} to {finding.where[1]:g}"
    return f"{finding.check}: {', '.join(numbers)}; n = {finding.n} {finding.of}{where}"


def _source(source: Source) -> str:
    said = f"{source.path}: {source.what}"
    if source.records:
        said += f", {source.records} records"
        said += (
            f" counted by {source.counted_by}" if source.counted_by else ", no name for the update: counted"
        )
    if source.updates_a_row > 1:
        said += f", {source.updates_a_row} updates taken together as one"
    if source.broken:
        at = "" if source.first_broken is None else f" (first at line {source.first_broken})"
        said += f", {source.broken} could not be read{at}"
    if source.unknown:
        more = len(source.unknown) - _NAMES
        said += f"; not known here: {', '.join(source.unknown[:_NAMES])}" + (
            f" and {more} more" if more > 0 else ""
        )
    return said


def _finite(numbers: Mapping[str, float]) -> dict[str, float | None]:
    return {name: float(value) if math.isfinite(value) else None for name, value in numbers.items()}


def _wrap(line: str, width: int) -> list[str]:
    """Words in lines of at most a width; a word that is longer stands alone."""
    lines = [""]
    for word in line.split(" "):
        if lines[-1] and len(lines[-1]) + 1 + len(word) > width:
            lines.append(word)
        else:
            lines[-1] = f"{lines[-1]} {word}".lstrip() if lines[-1] else word
    return lines
