"""A real run on cores of its own: every thread of the engine and of the trainer is where it belongs."""

from __future__ import annotations

import os
import subprocess
import time
from pathlib import Path
from typing import Any

import pytest

from full_runs import pinned
from tests.full_runs.real import command, environment, needs_engines

HERE = sorted(pinned.usable() or ())
pytestmark = [
    *needs_engines(),
    pytest.mark.skipif(len(HERE) < 2, reason="this process may use one core, or none can be chosen"),
]
PATIENCE_S = 1500.0


@pytest.fixture(scope="module")
def seen(tmp_path_factory: pytest.TempPathFactory) -> dict[str, set[tuple[int, ...]]]:
    """Cores of all threads, by whose they are, when updates have been made and weights pushed; and how many
    processes an engine has."""
    import psutil

    out: Path = tmp_path_factory.mktemp("run") / "out"
    cores = ["--trainer-cores", str(HERE[0]), "--engine-cores", str(HERE[-1])]
    cores += ["--controller-cores", str(HERE[-1])]
    words = ["full", "tiny-cpu", *cores, "--updates", "10000", "--measure-every", "10000", "--out", str(out)]
    process = subprocess.Popen(command(*words), env=environment(), stderr=subprocess.DEVNULL)
    try:
        end_s = time.monotonic() + PATIENCE_S
        while pushes(out / "journal.jsonl") < 3:
            assert process.poll() is None, "the run has ended"
            assert time.monotonic() < end_s
            time.sleep(0.5)
        mine = psutil.Process(process.pid).children(recursive=True)
        (server,) = [one for one in mine if "api_server" in words_of(one)]
        engine = [server, *server.children(recursive=True)]
        trainer = [one for one in mine if "full_runs.trainer.worker" in words_of(one)]
        return {
            "engine": {cores for one in engine for cores in cores_of(one.pid)},
            "trainer": {cores for one in trainer for cores in cores_of(one.pid)},
            "controller": cores_of(process.pid),
            "processes": {(len(engine), len(trainer))},
        }
    finally:
        process.terminate()
        assert process.wait(300) == 130


def pushes(journal: Path) -> int:
    return journal.read_text().count('"push"') if journal.exists() else 0


def words_of(process: Any) -> str:
    return " ".join(process.cmdline())


def cores_of(pid: int) -> set[tuple[int, ...]]:
    threads = [int(entry.name) for entry in Path(f"/proc/{pid}/task").iterdir()]
    return {tuple(sorted(os.sched_getaffinity(thread))) for thread in threads}


def test_an_engine_its_workers_and_all_their_threads_stay_on_its_core(seen):
    assert seen["engine"] == {(HERE[-1],)}


def test_two_ranks_share_the_trainers_one_core_with_torchrun(seen):
    assert seen["trainer"] == {(HERE[0],)}
    ((engine, trainer),) = seen["processes"]
    assert engine > 1  # the server and its worker
    assert trainer == 3  # torchrun's words name the worker too


def test_the_controller_shares_the_core_that_it_was_given(seen):
    assert seen["controller"] == {(HERE[-1],)}
