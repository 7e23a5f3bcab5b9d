"""A command that is put on cores is on them from its first line, and so is all that it starts."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from full_runs import pinned

HERE = sorted(pinned.usable() or ())
SAYS = (
    "import json, os, subprocess, sys, threading\n"
    "seen = [sorted(os.sched_getaffinity(0))]\n"
    "thread = threading.Thread(target=lambda: seen.append(sorted(os.sched_getaffinity(0))))\n"
    "thread.start(); thread.join()\n"
    "child = 'import os; print(sorted(os.sched_getaffinity(0)))'\n"
    "seen.append(json.loads(subprocess.check_output([sys.executable, '-c', child])))\n"
    "print(json.dumps(seen + [sys.argv[1:]]))\n"
)
needs_two = pytest.mark.skipif(len(HERE) < 2, reason="this process may use one core, or none can be chosen")


def seen(parts: list[tuple[int, ...]], **variables: str) -> list[list[int]]:
    """Cores of a process, of its thread and of its child; then the words that it was given."""
    words = [*pinned.words(parts), sys.executable, "-c", SAYS, "a b", ":"]
    root = str(Path(__file__).parents[2])
    said = subprocess.check_output(words, env=os.environ | {"PYTHONPATH": root} | variables)
    *cores, given = json.loads(said)
    assert given == ["a b", ":"]
    return cores


@needs_two
def test_a_process_its_threads_and_its_children_stay_on_their_cores() -> None:
    for own in ((HERE[0],), (HERE[-1],), (HERE[0], HERE[1])):
        assert seen([own]) == [list(own)] * 3


@needs_two
def test_each_local_rank_takes_its_own_part() -> None:
    parts = [(HERE[0],), (HERE[1],)]
    assert [seen(parts, LOCAL_RANK=str(rank)) for rank in range(2)] == [[[core]] * 3 for core in HERE[:2]]


@needs_two
def test_a_process_that_stays_takes_its_threads_along() -> None:
    code = (
        "import os, threading; from full_runs import pinned\n"
        "stop = threading.Event(); thread = threading.Thread(target=stop.wait); thread.start()\n"
        f"pinned.stay(({HERE[-1]},)); print(sorted(os.sched_getaffinity(thread.native_id))); stop.set()"
    )
    root = Path(__file__).parents[2]
    assert json.loads(subprocess.check_output([sys.executable, "-c", code], cwd=root)) == [HERE[-1]]


def test_one_part_is_everybodys() -> None:
    assert pinned.part_of("4,5", {"LOCAL_RANK": "3"}) == pinned.part_of("4,5", {}) == {4, 5}


def test_a_core_that_is_not_there_ends_it_with_a_reason() -> None:
    if not HERE:
        pytest.skip("here no process can be kept on cores")
    words = [*pinned.words([(60_000,)]), sys.executable, "-c", "print('went on')"]
    done = subprocess.run(
        words, cwd=Path(__file__).parents[2], capture_output=True, text=True, check=False
    )  # fmt: skip
    assert done.returncode != 0
    assert "Invalid argument" in done.stderr
    assert "went on" not in done.stdout
