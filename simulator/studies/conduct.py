"""Run a study's missing cells, having written down first what is claimed of them."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from simulator.command_line import StudyOptions, bad_input
from simulator.progress import progress
from simulator.runfolder import provenance, write_json
from simulator.studies import runner
from simulator.studies.cells import Cell, run_cell


def conduct(
    cells: Sequence[Cell],
    out: Path,
    *,
    config: dict[str, Any],
    registration: dict[str, Any],
    words: Sequence[str],
    options: StudyOptions,
) -> bool:
    """Run what is missing; the same command resumes what was interrupted.

    Args:
        config, registration: kept as `config.json` and `study.json` before the first run: what is claimed,
            and what counts as what.
        words: of the command line, for `meta.json`.

    Returns:
        Whether every run ended well; each failure is said on stderr.

    Raises:
        BadInputError: the folder cannot be written to.
        KeyboardInterrupt: after saying how many runs are kept.
    """
    missing = runner.missing(cells, out)
    runner.remove_leftovers(out)
    with bad_input("study: "):
        out.mkdir(parents=True, exist_ok=True)
        write_json(out / "config.json", config)
        write_json(out / "study.json", registration)
        made = {"command": " ".join(["policylag", "study", *words])} | provenance()
        write_json(out / "meta.json", made)
    try:
        with progress(len(missing), "runs", silent=options.silent) as advance:
            ended = runner.run_cells(
                missing, out, run=run_cell, jobs=options.jobs, on_end=lambda _: advance()
            )
    except KeyboardInterrupt:
        kept = sum(cell.is_done(out) for cell in cells)
        print(f"policylag: {kept} of {len(cells)} runs are kept; the same command resumes", file=sys.stderr)
        raise
    failures = [outcome for outcome in ended if outcome.error]
    for outcome in failures:
        print(f"policylag: {outcome.cell.name} failed\n{outcome.error}", file=sys.stderr)
    return not failures
