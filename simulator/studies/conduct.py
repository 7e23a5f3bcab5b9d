"""Run a study's missing cells, having written down first what is claimed of them."""

from __future__ import annotations

import os
import sys
from collections.abc import Callable, Sequence

from simulator.command_line import BadInputError, bad_input
from simulator.files import write_json
from simulator.progress import progress
from simulator.runfolder import provenance
from simulator.studies import runner
from simulator.studies.ask import Asked
from simulator.studies.cells import Cell, run_cell
from simulator.studies.plan import registration


def conduct(asked: Asked) -> bool:
    """Run what is missing; the same command resumes what was interrupted.

    `study.json` (what is claimed, and what counts as what), `config.json` and `meta.json` are written before
    the first run; `failures.json` after the last, if one failed.

    Returns:
        Whether every run ended well; each failure is said on stderr when it happens.

    Raises:
        BadInputError: the folder cannot be written to, or there is no cluster where one was named.
        KeyboardInterrupt: after saying how many runs are kept.
    """
    missing = runner.missing(asked.chosen, asked.out)
    runner.remove_leftovers(asked.out)
    with bad_input("study: "):
        asked.out.mkdir(parents=True, exist_ok=True)
        # The claims first: by study.json a folder is known as a study's.
        write_json(asked.out / "study.json", registration(asked.plan))
        # In the order of the file, by which a study of one's own names and shows its arms.
        write_json(asked.out / "config.json", asked.config.model_dump(mode="json"), in_order=True)
        made = {"command": " ".join(["policylag", "study", *asked.words])} | provenance()
        write_json(asked.out / "meta.json", made)
    total, silent = len(asked.chosen), asked.options.silent
    try:
        with progress(total, "runs", silent=silent, already=total - len(missing)) as advance:
            ended = _run(asked, missing, _told(advance))
    except KeyboardInterrupt:
        kept = sum(cell.is_done(asked.out) for cell in asked.chosen)
        print(f"policylag: {kept} of {total} runs are kept; the same command resumes", file=sys.stderr)
        raise
    return _all_well(asked, ended)


def _run(
    asked: Asked, missing: Sequence[Cell], on_end: Callable[[runner.Outcome], None]
) -> Sequence[runner.Outcome]:
    if not missing:
        return []
    jobs = asked.options.jobs
    if asked.options.backend == "joblib":
        return runner.run_cells(
            missing, asked.out, run=run_cell, jobs=jobs or os.cpu_count() or 1, on_end=on_end
        )
    from simulator.studies import on_ray

    try:
        return on_ray.run_cells(missing, asked.out, run=run_cell, jobs=jobs, on_end=on_end)
    except on_ray.NoClusterError as nowhere:
        raise BadInputError(f"study: {nowhere}") from None


def _told(advance: Callable[[], None]) -> Callable[[runner.Outcome], None]:
    def on_end(outcome: runner.Outcome) -> None:
        advance()
        if outcome.error:
            cell = outcome.cell
            print(
                f"policylag: {cell.arm}, seed {cell.seed}, failed ({cell.name})\n{outcome.error}",
                file=sys.stderr,
                flush=True,
            )

    return on_end


def _all_well(asked: Asked, ended: Sequence[runner.Outcome]) -> bool:
    failures = {
        outcome.cell.name: {"arm": outcome.cell.arm, "seed": outcome.cell.seed, "error": outcome.error}
        for outcome in ended
        if outcome.error
    }
    path = asked.out / "failures.json"
    if failures:
        write_json(path, failures)
        total = len(asked.chosen)
        print(
            f"policylag: {len(failures)} of {total} runs failed (see {path}); the same command tries again",
            file=sys.stderr,
        )
    else:
        path.unlink(missing_ok=True)
    return not failures
