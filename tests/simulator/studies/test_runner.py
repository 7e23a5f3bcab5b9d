import json
import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from simulator.experiments import groups
from simulator.studies.cells import Cell, run_cell
from simulator.studies.plan import cells
from simulator.studies.quick import QuickStudy, plan
from simulator.studies.runner import Outcome, missing, remove_leftovers, run_cells

ROOT = Path(__file__).resolve().parents[3]
SMALL = {
    "slots": 64,
    "rollouts_per_update": 16,
    "updates_per_batch": 2,
    "updates": 32,
    "policy_update_s": 0.1,
}


def grid(seeds: int = 2) -> list[Cell]:
    pipeline = groups(**SMALL)
    return cells(plan(QuickStudy(seeds=seeds, pipeline=pipeline, critic_update_s=0.1)))


def failing(cell: Cell, study: Path) -> None:
    if cell.arm == "grpo-dis":
        raise RuntimeError("engine lost")
    run_cell(cell, study)


def digests(study: Path, runs: list[Cell]) -> list[str]:
    return [json.loads((run.folder(study) / "meta.json").read_text())["digest"] for run in runs]


def test_a_failed_cell_is_reported_and_stops_no_other(tmp_path: Path) -> None:
    ended: list[Outcome] = []
    run_cells(grid(1), tmp_path, run=failing, jobs=2, on_end=ended.append)
    errors = {outcome.cell.arm: outcome.error for outcome in ended}
    assert "engine lost" in (errors.pop("grpo-dis") or "")
    assert list(errors.values()) == [None] * 3
    assert [cell.arm for cell in missing(grid(1), tmp_path)] == ["grpo-dis"]


def test_one_process_and_two_give_equal_logs(tmp_path: Path) -> None:
    runs = grid(1)
    for jobs in (1, 2):
        run_cells(runs, tmp_path / str(jobs), run=run_cell, jobs=jobs, on_end=lambda _: None)
    assert digests(tmp_path / "1", runs) == digests(tmp_path / "2", runs)


def test_only_old_leftovers_are_removed(tmp_path: Path) -> None:
    for name, age_s in ((".old-abc", 3600), (".new-abc", 0)):
        (tmp_path / "cells" / name).mkdir(parents=True)
        os.utime(tmp_path / "cells" / name, times=(time.time() - age_s,) * 2)
    remove_leftovers(tmp_path)
    assert [path.name for path in (tmp_path / "cells").iterdir()] == [".new-abc"]


def finished_by_another(cell: Cell, study: Path) -> None:
    run_cell(cell, study)
    run_cell(cell, study)  # what an orphan of a killed study may have done: FileExistsError


def test_a_cell_that_another_process_finished_first_is_done(tmp_path: Path) -> None:
    ended = run_cells(grid(1)[:1], tmp_path, run=finished_by_another, jobs=1, on_end=lambda _: None)
    assert [outcome.error for outcome in ended] == [None]


class _Deaf:
    """Python hands no exception out of a finaliser: it is printed and forgotten."""

    def __del__(self) -> None:
        os.kill(os.getpid(), signal.SIGINT)


@pytest.mark.usefixtures("hears_interrupts")
@pytest.mark.filterwarnings("ignore::pytest.PytestUnraisableExceptionWarning")
def test_an_interrupt_that_a_finaliser_swallows_is_answered_all_the_same(tmp_path: Path) -> None:
    ended: list[Outcome] = []

    def interrupt(outcome: Outcome) -> None:
        ended.append(outcome)
        if len(ended) == 1:
            _Deaf()

    with pytest.raises(KeyboardInterrupt):
        run_cells(grid(2), tmp_path, run=run_cell, jobs=1, on_end=interrupt)
    assert len(ended) == 1
    assert signal.getsignal(signal.SIGINT) is signal.default_int_handler


@pytest.mark.usefixtures("hears_interrupts")
@pytest.mark.parametrize("how", [signal.SIGKILL, signal.SIGINT])
def test_a_killed_study_resumes_and_redoes_nothing(tmp_path: Path, how: signal.Signals) -> None:
    """At any instant: finished runs stay as they are, and the same command ends with equal results."""
    flags = [f"--pipeline.{name.replace('_', '-')}={value}" for name, value in SMALL.items()]
    command = [sys.executable, "policylag.py", "study", "quick", "--seeds=6", "--critic-update-s=0.1", *flags]
    command += [f"--out={tmp_path / 'killed'}", "--jobs=2"]
    # a process group of its own, so that the signal reaches workers as a terminal's would
    started = subprocess.Popen(
        command,
        cwd=ROOT,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.PIPE,
        start_new_session=True,
        text=True,
    )
    runs = grid(6)
    deadline = time.monotonic() + 300
    while sum(cell.is_done(tmp_path / "killed") for cell in runs) < 3:
        assert started.poll() is None, started.stderr and started.stderr.read()
        assert time.monotonic() < deadline
        time.sleep(0.02)
    os.killpg(started.pid, how)
    _, said = started.communicate(timeout=120)
    assert started.returncode != 0
    if how is signal.SIGINT:
        assert started.returncode == 130
        assert "the same command resumes" in said
        assert "Traceback" not in said
    kept = {cell.name: cell.folder(tmp_path / "killed").stat().st_ino for cell in runs
            if cell.is_done(tmp_path / "killed")}  # fmt: skip
    assert 3 <= len(kept) < len(runs)
    subprocess.run(command, cwd=ROOT, check=True, capture_output=True, timeout=300)
    assert not missing(runs, tmp_path / "killed")
    assert {name: (tmp_path / "killed" / "cells" / name).stat().st_ino for name in kept} == kept
    sample = [runs[0], runs[-1]]
    run_cells(sample, tmp_path / "whole", run=run_cell, jobs=1, on_end=lambda _: None)
    assert digests(tmp_path / "whole", sample) == digests(tmp_path / "killed", sample)
