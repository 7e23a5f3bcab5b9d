"""How far off is what the simulator foretells of real runs? The table of `docs/how-to/calibrate.md`.

`make docs-calibration` starts real engines, on two cores that nothing else may use meanwhile: for each seed
two runs that constants are fitted to and two that are foretold whole, then `policylag calibrate`; some six
minutes a seed. Finished runs are kept: interrupt it when you like, the same command goes on. After a change
of the code remove them, speeds are others.
"""

from __future__ import annotations

import argparse
import json
import shutil
import subprocess
import sys
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final, final

from docs.tools.calibration_table import Error, read, table
from full_runs.configs.record import FullConfig
from full_runs.folder import FINISHED, new_or_unfinished
from simulator.command_line import BadInputError, bad_input

VOCABULARY: Final = 100
"""Of the model that says random characters: a response has as many tokens on average."""
QUESTIONS: Final = "questions.jsonl"
MODEL: Final = "model"


@final
@dataclass(frozen=True, slots=True, kw_only=True)
class Cell:
    """One run of each seed."""

    name: str
    updates: int
    changes: Mapping[str, Any]


FITTED: Final = Cell(name="32 in flight", updates=40, changes={"in_flight": 32})
"""Its first half is fitted, its rest foretold."""
FITTED_TOO: Final = Cell(name="12 in flight", updates=36, changes={"in_flight": 12})
"""Tells what a step of an engine owes to how many rollouts run."""
FORETOLD: Final = (
    Cell(name="6 in flight", updates=30, changes={"in_flight": 6}),
    Cell(
        name="groups of 8, bound 4",
        updates=40,
        changes={
            "in_flight": 32,
            "estimator": "grpo_dis",
            "group_size": 8,
            "staleness": {"kind": "bounded_lag", "eta_batches": 4},
        },
    ),
)
CELLS: Final = (FITTED, FITTED_TOO, *FORETOLD)


def settings(cell: Cell, seed: int, folder: Path, *, cores: Mapping[str, str], share: float) -> FullConfig:
    """Of one run.

    Args:
        folder: where the model is.
        cores: settings of cores; none: shared by all processes.
        share: of the cell's updates.
    """
    model = folder / MODEL
    common: dict[str, Any] = {
        "model": str(model),
        "world": {
            "kind": "questions", "path": str(model / QUESTIONS), "chat_template": False, "instruction": "",
        },
        "max_prompt_tokens": 32, "max_response_tokens": 400, "packed": True, "tokens_at_once": 1000,
        "estimator": "reinforce_pp", "learning_rate": 1e-6, "rollouts_per_update": 32,
        # Neither measuring nor checkpoints: what is to be foretold is the pipeline.
        "measure_every": 1000, "updates_per_checkpoint": 1000,
        "updates": max(round(share * cell.updates), 5), "seed": seed,
    }  # fmt: skip
    return FullConfig.model_validate(common | dict(cell.changes) | dict(cores))


def place(folder: Path, cell: Cell, seed: int) -> Path:
    """Of a run, and of its settings."""
    return folder / f"seed-{seed}" / cell.name.replace(",", "").replace(" ", "-")


def is_made(config: FullConfig, out: Path) -> bool:
    """The run is there, of these settings.

    Raises:
        BadInputError: it is there, of others.
    """
    if not (out / FINISHED).is_dir():
        return False
    with bad_input(f"{out}: "):
        kept = FullConfig.model_validate_json((out / FINISHED / "config.json").read_text())
    for name in FullConfig.model_fields:
        there, here = getattr(kept, name), getattr(config, name)
        if there != here:
            raise BadInputError(
                f"out: {out} holds a run whose {name} is {there}, not {here}: remove it or name another --out"
            )
    return True


def make(config: FullConfig, out: Path) -> int:
    """Run it in a process of its own; its exit status."""
    # Not gone on with: it would have stood still meanwhile, and time is what is measured.
    shutil.rmtree(new_or_unfinished(out, config), ignore_errors=True)
    out.parent.mkdir(parents=True, exist_ok=True)
    asked = out.parent / f"{out.name}.json"
    asked.write_text(config.model_dump_json(indent=1))
    words = ["full", "tiny-cpu", "--config", str(asked), "--out", str(out)]
    # What it prints in the end is the name of its folder; standard output is the table's.
    process = subprocess.Popen([sys.executable, "-m", "policylag", *words], stdout=subprocess.DEVNULL)
    try:
        return process.wait()
    except KeyboardInterrupt:
        process.wait()  # it was interrupted too, and ends its engines
        raise


def calibrated(folder: Path, seed: int) -> list[Error]:
    """`policylag calibrate` on the runs of a seed."""
    from full_runs.calibrate.command import answer

    words = [str(place(folder, FITTED, seed) / FINISHED), "--json"]
    words += ["--speeds-from", str(place(folder, FITTED_TOO, seed) / FINISHED)]
    parts = {"rest": "rest of the run"}
    for cell in FORETOLD:
        run = str(place(folder, cell, seed) / FINISHED)
        words += ["--against", run]
        parts[run] = cell.name
    return read(seed, json.loads(answer(words)), parts)


def main(words: Sequence[str]) -> int:
    parser = argparse.ArgumentParser(prog="python -m docs.tools.calibration", description=__doc__)
    parser.add_argument("--seeds", type=int, default=3, help="0, 1, ...: as many calibrations (3)")
    parser.add_argument("--out", type=Path, default=None, help="where runs are kept (runs/calibration)")
    parser.add_argument("--trainer-cores", default="0", help="the trainer's own core (0)")
    parser.add_argument("--engine-cores", default="1", help="the engine's, and the controller's (1)")
    parser.add_argument("--shared-cores", action="store_true", help="no core is anybody's: what then fails")
    parser.add_argument("--share", type=float, default=1.0, help="of the updates, for a trial (1)")
    given = parser.parse_args(words)
    if given.seeds < 1 or not 0 < given.share <= 10:
        parser.error(f"--seeds is {given.seeds} and --share {given.share}: at least 1, and in (0, 10]")
    folder = given.out or Path("runs") / ("calibration-shared" if given.shared_cores else "calibration")
    cores = {"trainer_cores": given.trainer_cores, "engine_cores": given.engine_cores}
    # One that wandered would take time from either, now and then.
    cores["controller_cores"] = given.engine_cores
    try:
        return _conduct(folder, range(given.seeds), {} if given.shared_cores else cores, given.share)
    except BadInputError as wrong:
        print(f"{parser.prog}: {wrong}", file=sys.stderr)
        return 2
    except KeyboardInterrupt:
        print(f"{parser.prog}: interrupted; finished runs are kept in {folder}", file=sys.stderr)
        return 130


def _conduct(folder: Path, seeds: Sequence[int], cores: Mapping[str, str], share: float) -> int:
    with bad_input():
        runs = {
            place(folder, cell, seed): settings(cell, seed, folder, cores=cores, share=share)
            for seed in seeds
            for cell in CELLS
        }
        missing = {out: config for out, config in runs.items() if not is_made(config, out)}
        if missing and not (folder / MODEL / QUESTIONS).is_file():
            _write_model(folder / MODEL)
    for number, (out, config) in enumerate(missing.items(), len(runs) - len(missing) + 1):
        print(f"run {number} of {len(runs)}: {out}", file=sys.stderr, flush=True)
        begin_s = time.monotonic()
        if status := make(config, out):
            return status
        print(f"run {number} of {len(runs)}: {time.monotonic() - begin_s:.0f} s", file=sys.stderr, flush=True)
    with bad_input():
        print(table([error for seed in seeds for error in calibrated(folder, seed)]))
    return 0


def _write_model(folder: Path) -> None:
    try:
        from benchmarks.random_model import write
        from full_runs.tasks.tiny_model import TinyModel

        folder.mkdir(parents=True, exist_ok=True)
        write(folder, TinyModel(), vocabulary=VOCABULARY)
    except ImportError as absent:
        raise BadInputError(f"{absent}: it runs in the environment of `make full`") from None


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
