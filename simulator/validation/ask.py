"""What `policylag validate` asks, runs and answers.

Annotations are evaluated eagerly here (no `__future__` import), because tyro makes the flags from them.
"""

import dataclasses
import json
import math
import os
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import tyro
from joblib import Parallel, delayed

from simulator.command_line import BadInputError, run_tyro
from simulator.validation.checks import CHECKS, rows_of
from simulator.validation.row import Row


@dataclass(frozen=True)
class Asking:
    """Does the simulator meet theory and published runs? Exit status 1 if a row fails."""

    checks: tyro.conf.Positional[list[str]] = dataclasses.field(default_factory=list)
    """Names of checks; all of them if none is named."""
    jobs: int = os.cpu_count() or 1
    """Checks at once, each in a process of its own."""
    quiet: bool = False
    """No progress on stderr."""
    json: bool = False
    """One JSON object on stdout, and nothing else there."""

    @property
    def silent(self) -> bool:
        return self.quiet or self.json


def ask(words: list[str]) -> Asking:
    """`[CHECK...] [--jobs N] [--json]`.

    Raises:
        BadInputError: an unknown check, or fewer jobs than one.
    """
    asked: Asking = run_tyro(Asking, words, command="validate")
    names = [name.replace("-", "_") for name in asked.checks]
    known = names_of_checks()
    if unknown := [name for name in names if name not in known]:
        raise BadInputError(
            f"validate: no check {', '.join(map(repr, unknown))}; there are {', '.join(known)}"
        )
    if asked.jobs < 1:
        raise BadInputError(f"validate: jobs must be at least 1, got {asked.jobs}")
    return dataclasses.replace(asked, checks=names or known)


def names_of_checks() -> list[str]:
    return [check.__name__ for check in CHECKS]


def answer(asked: Asking, advance: Callable[[], object] = lambda: None) -> list[Row]:
    """The rows of the checks asked for, in the order of `CHECKS`, whoever ends first."""
    known = names_of_checks()
    wanted = [i for i, name in enumerate(known) if name in asked.checks]
    if asked.jobs == 1:
        return [row for i in wanted for row in _advanced(rows_of(i), advance)]
    workers = Parallel(n_jobs=min(asked.jobs, len(wanted)), return_as="generator")
    return [row for rows in workers(delayed(rows_of)(i) for i in wanted) for row in _advanced(rows, advance)]


def text(rows: Sequence[Row]) -> str:
    """Two lines a row, at most 80 columns: what is compared; then numbers, criterion and verdict."""
    lines: list[str] = []
    source = ""
    for row in rows:
        if row.source != source:
            source = row.source
            lines += ["", f"[{source}]"]
        interval = "" if math.isnan(row.half_width) else f" +- {row.half_width:.2g}"
        error = "" if math.isnan(row.error) else f"{row.error:+.1%}"
        verdict = "ok" if row.holds else "FAILS"
        lines += [
            row.about,
            f"  {row.expected:.4g} expected, {row.simulated:.4g}{interval} simulated"
            f" {error}; {row.wanted}: {verdict}",
        ]
    failed = sum(not row.holds for row in rows)
    return "\n".join([*lines[1:], "", f"{len(rows)} rows, {failed or 'none'} of them fail"])


def to_json(rows: Sequence[Row]) -> str:
    """Every row as an object; a number that is not finite is null."""
    return json.dumps(
        {"holds": all(row.holds for row in rows), "rows": [_plain(row) for row in rows]}, allow_nan=False
    )


def _plain(row: Row) -> dict[str, Any]:
    fields = dataclasses.asdict(row) | {"error": row.error}
    return {
        name: None if isinstance(value, float) and not math.isfinite(value) else value
        for name, value in fields.items()
    }


def _advanced(rows: list[Row], advance: Callable[[], object]) -> list[Row]:
    advance()
    return rows
