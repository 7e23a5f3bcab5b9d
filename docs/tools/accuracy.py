"""Which numbers are on the accuracy page? Those of `policylag validate --json`, kept in `docs/accuracy.json`.

`python -m docs.tools.accuracy` runs all checks (a minute on two cores) and writes the file, or those that are
named; a test runs the quick ones again.
"""

from __future__ import annotations

import json
import sys
from itertools import groupby
from pathlib import Path
from typing import Any, Final

KEPT: Final = Path(__file__).resolve().parents[1] / "accuracy.json"


def rows_of(name: str) -> list[dict[str, Any]]:
    """The rows of one check, as `policylag validate --json` gives them."""
    from simulator.validation.ask import names_of_checks, to_json
    from simulator.validation.checks import rows_of as run

    rows: list[dict[str, Any]] = json.loads(to_json(run(names_of_checks().index(name))))["rows"]
    return rows


def kept() -> dict[str, list[dict[str, Any]]]:
    """Check -> its rows, of those that were run."""
    found: dict[str, list[dict[str, Any]]] = json.loads(KEPT.read_text(encoding="utf-8"))
    return found


def page() -> str:
    """A table for each source of expected numbers, and a sentence that counts."""
    from simulator.validation.ask import names_of_checks

    checks = kept()
    rows = [row for made in checks.values() for row in made]
    failed = sum(not row["holds"] for row in rows)
    parts = [f"{len(rows)} rows from {len(checks)} checks, {failed or 'none'} of them fail."]
    missing = [f"`{name}`" for name in names_of_checks() if name not in checks]
    if missing:
        parts.append(
            f"Not among them, since they were not run when this page was written: {', '.join(missing)}."
        )
    for source, of in groupby(rows, key=lambda row: row["source"]):
        lines = [_line(row) for row in of]
        head = [
            "| what is compared | expected | simulated | error | criterion | n | |",
            "|---|--:|--:|--:|---|--:|---|",
        ]
        parts.append("\n".join([f"### {_cell(source)}", "", *head, *lines]))
    return "\n\n".join(parts)


def _line(row: dict[str, Any]) -> str:
    interval = "" if row["half_width"] is None else f" ± {row['half_width']:.2g}"
    error = "" if row["error"] is None else f"{row['error']:+.1%}"
    cells = (
        _cell(row["about"]),
        f"{row['expected']:.4g}",
        f"{row['simulated']:.4g}{interval}",
        error,
        row["wanted"],
        f"{row['n']:,}",
        "ok" if row["holds"] else "**fails**",
    )
    return f"| {' | '.join(cells)} |"


def _cell(words: str) -> str:
    return words.replace("|", "\\|").replace("*", "\\*")


def main(names: list[str]) -> None:
    """Write the rows of the checks named, or of all, anew; what has ended is kept, whatever interrupts it."""
    from joblib import Parallel, delayed

    from simulator.validation.ask import names_of_checks

    wanted = names or names_of_checks()
    checks = kept() if names and KEPT.is_file() else {}
    made = Parallel(n_jobs=min(2, len(wanted)), return_as="generator")(
        delayed(rows_of)(name) for name in wanted
    )
    for name, rows in zip(wanted, made, strict=True):
        checks[name] = rows
        ordered = {known: checks[known] for known in names_of_checks() if known in checks}
        KEPT.write_text(json.dumps(ordered, indent=1) + "\n", encoding="utf-8")


if __name__ == "__main__":
    main(sys.argv[1:])
