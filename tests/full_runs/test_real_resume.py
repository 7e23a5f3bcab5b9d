"""Killed with SIGKILL and started again with the same command: first the controller, then a trainer's rank.

On two ranks at first, on one afterwards.
"""

from __future__ import annotations

import json
import os
import signal
import subprocess
import time
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pandas as pd
import pytest

from full_runs.controller.journal import lines
from full_runs.controller.resume import RESTART
from tests.full_runs.real import command, environment, needs_engines

pytestmark = needs_engines()
UPDATES, BATCH = 9, 8
WORDS = (
    f"full tiny-cpu --updates {UPDATES} --rollouts-per-update {BATCH} --in-flight 8 --critic-only-updates 1"
    " --updates-per-checkpoint 2 --measure-every 4 --held-out 8 --warm-start-accuracy 0.2"
    " --engine-ready-timeout-s 1500"
)
PATIENCE_S = 300.0


@contextmanager
def started(out: Path, cache: Path, *more: str) -> Iterator[subprocess.Popen[str]]:
    """The command, until it has ended; killed if the test fails before."""
    with subprocess.Popen(
        command(*WORDS.split(), "--json", "--out", str(out), *more),
        env=environment(POLICYLAG_CACHE=str(cache)),
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    ) as process:
        try:
            yield process
        finally:
            process.kill()


def wait_for(process: subprocess.Popen[str], out: Path, version: int) -> None:
    """Until this update is in the journal of the process."""
    journal = out / "journal.jsonl"
    while process.poll() is None:
        if journal.exists() and newest(lines(journal)) == version:
            return
        time.sleep(0.05)
    raise AssertionError(f"it ended before update {version}: {process.communicate()}")


def newest(facts: Iterable[Mapping[str, Any]]) -> int:
    """Updates of the trainer that runs now."""
    return next(
        (fact["version"] for fact in reversed(list(facts)) if fact["kind"] in ("update", "resume")), 0
    )


@dataclass(frozen=True)
class Lives:
    """One run in several processes."""

    before: list[dict[str, Any]]
    """The journal as the killed controller left it."""
    facts: list[dict[str, Any]]
    """In the end."""
    tables: dict[str, pd.DataFrame]
    said: dict[str, Any]
    """By the second process."""
    again: subprocess.CompletedProcess[str]
    """The same command once more."""


@pytest.fixture(scope="module")
def lives(tmp_path_factory: pytest.TempPathFactory) -> Lives:
    import psutil

    from simulator.eventlog import EventLog

    place = tmp_path_factory.mktemp("resume")
    out, cache = place / "out", place / "cache"
    with started(out, cache) as process:
        wait_for(process, out, 5)
        engines_and_ranks = psutil.Process(process.pid).children(recursive=True)
        assert len(engines_and_ranks) >= 4  # a server and its core, torchrun and two ranks
        process.kill()
        _, alive = psutil.wait_procs(engines_and_ranks, timeout=PATIENCE_S)
        assert not alive, "they outlive their controller"
    before = list(lines(out / "journal.jsonl"))
    with started(out, cache, "--ranks", "1") as process:
        wait_for(process, out, 7)
        os.kill(int((out / "trainer" / "rank-0.pid").read_text()), signal.SIGKILL)
        said, errors = process.communicate()
        assert process.returncode == 0, errors
    with started(out, cache) as process:
        _, refused = process.communicate()
        again = subprocess.CompletedProcess(process.args, process.returncode, stderr=refused)
    log = EventLog.read(out / "run")
    return Lives(
        before=before,
        facts=list(lines(out / "journal.jsonl")),
        tables={name: table.to_pandas() for name, table in log.tables().items()},
        said=json.loads(said),
        again=again,
    )


def test_it_goes_on_from_the_last_checkpoint(lives: Lives) -> None:
    assert [fact["version"] for fact in lives.facts if fact["kind"] == "resume"] == [4, 6]
    assert list(lives.tables["updates"]["version"]) == list(range(1, UPDATES + 1))
    assert lives.said["failures"]["trainer"] == 1


def test_every_prompt_is_trained_once_or_accounted_for(lives: Lives) -> None:
    rollouts = lives.tables["rollouts"]
    assert sorted(rollouts["rollout_id"]) == list(range(len(rollouts)))
    assert (rollouts["status"] == "trained").sum() == UPDATES * BATCH
    times = (rollouts["status"] == "trained").groupby(rollouts["prompt_id"]).sum()
    assert times.max() == 1
    assert sorted(times.index) == list(range(len(times)))
    # Lost with a process, and never asked again: none.
    assert (rollouts["reason"] == RESTART).any()
    assert not (rollouts["reason"] == RESTART).groupby(rollouts["prompt_id"]).all().any()


def test_the_curve_goes_on(lives: Lives) -> None:
    updates = lives.tables["updates"].set_index("version")
    old = {fact["version"]: fact["metrics"] for fact in lives.before if fact["kind"] == "update"}
    for version in range(1, 5):
        assert updates.loc[version, "loss"] == old[version]["loss"]
    # The batch after a restart is all by the checkpoint's weights: engines and trainer agree on them. The
    # policy has moved by then.
    assert (updates.loc[[5, 7], "oldest_lag_max"] == 0).all()
    assert (updates.loc[[5, 7], "k3"] < 1e-9).all()
    assert updates["k3"].max() > 1e-7
    assert (updates["refused"] == 0).all()


def test_lags_and_times_are_those_of_one_run(lives: Lives) -> None:
    rollouts, updates = lives.tables["rollouts"], lives.tables["updates"]
    met = rollouts[rollouts["status"].isin(["trained", "dropped"]) & rollouts["oldest_version"].notna()]
    assert (met["consumed_version"] >= met["oldest_version"]).all()
    assert updates["train_end_s"].is_monotonic_increasing
    assert (updates["published_s"] >= updates["train_end_s"]).all()


def test_a_finished_run_is_not_written_over(lives: Lives) -> None:
    assert lives.again.returncode == 2
    assert "is not an empty folder" in lives.again.stderr
    assert lives.facts[-1]["kind"] != "resume"  # read after it was refused
