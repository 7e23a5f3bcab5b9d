"""Against a real Ray, started here: one node of two processors."""

import os
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from simulator.studies.cells import Cell, run_cell
from simulator.studies.on_ray import at_work, keep, run_cells
from simulator.studies.runner import Outcome, missing
from simulator.studies.runner import run_cells as run_in_processes
from tests.simulator.studies.test_runner import ROOT, SMALL, digests, grid

ray = pytest.importorskip("ray", reason="ray is not installed: pip install 'policylag[ray]'")


@pytest.fixture(scope="module")
def cluster() -> Iterator[str]:
    """Its address; the tests of this module are connected to it."""
    os.environ["RAY_USAGE_STATS_ENABLED"] = "0"
    ray.init(address="local", num_cpus=2, include_dashboard=False, log_to_driver=False, logging_level="ERROR")
    yield ray.get_runtime_context().gcs_address
    ray.shutdown()


def unreliable(cell: Cell, study: Path) -> None:
    if cell.arm == "grpo-dis":
        raise RuntimeError("engine lost")
    if cell.arm == "grpo-behaviour-clip":
        os.kill(os.getpid(), signal.SIGKILL)
    run_cell(cell, study)


@pytest.mark.usefixtures("cluster")
def test_logs_are_those_of_processes_and_a_failure_stops_no_other(tmp_path: Path) -> None:
    runs = grid(1)
    ended: list[Outcome] = []
    done = run_cells(runs, tmp_path / "ray", run=unreliable, jobs=None, on_end=ended.append)
    assert done == ended
    errors = {outcome.cell.arm: outcome.error for outcome in ended}
    assert "engine lost" in (errors["grpo-dis"] or "")
    assert "WorkerCrashedError" in (errors["grpo-behaviour-clip"] or "")
    assert (errors["grpo"], errors["sao"]) == (None, None)
    assert {cell.arm for cell in missing(runs, tmp_path / "ray")} == {"grpo-dis", "grpo-behaviour-clip"}
    whole = [runs[0], runs[3]]
    run_in_processes(whole, tmp_path / "processes", run=run_cell, jobs=1, on_end=lambda _: None)
    assert digests(tmp_path / "ray", whole) == digests(tmp_path / "processes", whole)
    assert not list((tmp_path / "ray").glob(".driver-*"))


def hiding(cell: Cell, study: Path) -> None:
    """The first cell makes the folder one that workers do not know: from then on they work elsewhere."""
    if cell.arm == "sao" and study.name == "driver":
        raise RuntimeError("written where nobody looks")
    run_cell(cell, study)
    for beacon in study.glob(".driver-*"):
        beacon.unlink()


@pytest.mark.usefixtures("cluster")
def test_what_the_driver_cannot_see_comes_back_through_ray(tmp_path: Path) -> None:
    runs = [grid(1)[0], grid(1)[3]]
    ended = run_cells(runs, tmp_path / "driver", run=hiding, jobs=1, on_end=lambda _: None)
    assert [outcome.error for outcome in ended] == [None, None]
    run_in_processes(runs[1:], tmp_path / "processes", run=run_cell, jobs=1, on_end=lambda _: None)
    assert digests(tmp_path / "driver", runs[1:]) == digests(tmp_path / "processes", runs[1:])
    here, there = (runs[1].folder(tmp_path / name) for name in ("driver", "processes"))
    assert [path.name for path in sorted(here.iterdir())] == [path.name for path in sorted(there.iterdir())]
    assert here.stat().st_mode == there.stat().st_mode


def test_a_worker_with_other_sources_refuses(tmp_path: Path) -> None:
    error, files = at_work(grid(1)[0], run_cell, tmp_path, ".driver-x", "0" * 16)
    assert "other sources" in (error or "")
    assert not files
    assert not list(tmp_path.iterdir())


def test_a_folder_that_is_there_is_kept_as_it_is(tmp_path: Path) -> None:
    keep({"meta.json": b"{}"}, tmp_path / "cell")
    keep({"meta.json": b"[]"}, tmp_path / "cell")
    assert (tmp_path / "cell" / "meta.json").read_bytes() == b"{}"
    (tmp_path / "other").mkdir()
    (tmp_path / "other" / "mine.txt").touch()
    with pytest.raises(OSError, match="other"):
        keep({"meta.json": b"{}"}, tmp_path / "other")
    assert sorted(path.name for path in tmp_path.iterdir()) == ["cell", "other"]


@pytest.mark.slow
@pytest.mark.usefixtures("hears_interrupts")
@pytest.mark.parametrize(
    ("how", "where"),
    [(signal.SIGKILL, "its own"), (signal.SIGINT, "its own"), (signal.SIGINT, "RAY_ADDRESS")],
)
def test_a_killed_study_resumes_with_equal_results(
    tmp_path: Path, cluster: str, how: signal.Signals, where: str
) -> None:
    runs, out = grid(4), tmp_path / "killed"
    flags = [f"--pipeline.{name.replace('_', '-')}={value}" for name, value in SMALL.items()]
    command = [sys.executable, "policylag.py", "study", "quick", "--seeds=4", "--critic-update-s=0.1", *flags]
    command += [f"--out={out}", "--backend=ray", "--jobs=2"]
    env = {name: value for name, value in os.environ.items() if name != "RAY_ADDRESS"}
    if where == "RAY_ADDRESS":
        env["RAY_ADDRESS"] = cluster
    pipes = {"stdout": subprocess.DEVNULL, "stderr": subprocess.PIPE}
    started = subprocess.Popen(command, cwd=ROOT, env=env, start_new_session=True, text=True, **pipes)
    deadline = time.monotonic() + 300
    while sum(cell.is_done(out) for cell in runs) < 2:
        assert started.poll() is None, started.stderr and started.stderr.read()
        assert time.monotonic() < deadline
        time.sleep(0.02)
    os.killpg(started.pid, how)
    _, said = started.communicate(timeout=120)
    if how is signal.SIGINT:
        assert started.returncode == 130, said
        assert "the same command resumes" in said
        assert "Traceback" not in said
        assert not list(out.glob(".driver-*"))
    kept = {cell.name: cell.folder(out).stat().st_ino for cell in runs if cell.is_done(out)}
    assert 2 <= len(kept) < len(runs)
    # The rest by processes: what was begun with one backend is finished with the other.
    rest = [part for part in command if part != "--backend=ray"] if where == "RAY_ADDRESS" else command
    subprocess.run(rest, cwd=ROOT, env=env, check=True, capture_output=True, timeout=300)
    assert not missing(runs, out)
    assert {name: (out / "cells" / name).stat().st_ino for name in kept} == kept
    sample = [runs[0], runs[-1]]
    run_in_processes(sample, tmp_path / "whole", run=run_cell, jobs=1, on_end=lambda _: None)
    assert digests(tmp_path / "whole", sample) == digests(out, sample)


def test_an_address_that_leads_nowhere_is_said_in_one_line(tmp_path: Path) -> None:
    command = [sys.executable, "policylag.py", "study", "quick", "--backend=ray", "--quiet", "--seeds=1"]
    env = os.environ | {"RAY_ADDRESS": "127.0.0.1:1"}
    command += [f"--out={tmp_path / 'new'}"]
    done = subprocess.run(command, cwd=ROOT, env=env, capture_output=True, text=True, check=False)
    assert done.returncode == 2
    assert done.stderr.startswith("policylag study: RAY_ADDRESS is 127.0.0.1:1: ")
    assert done.stderr.count("\n") == 1
    assert not list((tmp_path / "new").glob("cells/*"))
