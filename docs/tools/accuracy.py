"""Which numbers are on the accuracy page? Those of `policylag validate --json`, kept in `docs/accuracy.json`.

`python -m docs.tools.accuracy` runs all checks (a minute on two cores) and writes the file; a test runs the
quick ones again.
"""

from __future__ import annotations

import json
from itertools import groupby
from pathlib import Path
from typing import Any, Final

KEPT: Final = Path(__file__).resolve().parents[1] / "accuracy.json"


def rows_of(names: list[str]) -> dict[str, list[dict[str, Any]]]:
    """Check -> its rows, as `policylag validate --json` gives them."""
    from joblib import Parallel, delayed

    from simulator.validation.ask import names_of_checks, to_json
    from simulator.validation.checks import rows_of as run

    known = names_of_checks()
    made = Parallel(n_jobs=-1 if len(names) > 4 else 1)(delayed(run)(known.index(name)) for name in names)
    return {name: json.loads(to_json(rows))["rows"] for name, rows in zip(names, made, strict=True)}


def page() -> str:
    """A table for each source of expected numbers, and a sentence that counts."""
    kept = json.loads(KEPT.read_text(encoding="utf-8"))
    rows = [row for made in kept.values() for row in made]
    failed = sum(not row["holds"] for row in rows)
    parts = [f"{len(rows)} rows from {len(kept)} checks, {failed or 'none'} of them fail."]
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


def main() -> None:
    """Write the file anew."""
    from simulator.validation.ask import names_of_checks

    KEPT.write_text(json.dumps(rows_of(names_of_checks()), indent=1) + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()
