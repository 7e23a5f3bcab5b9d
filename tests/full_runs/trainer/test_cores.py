"""Two ranks with a core each: every thread of theirs is on it, and torchrun is on both."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from full_runs import pinned
from full_runs.trainer.client import TrainerClient
from full_runs.trainer.config import TrainerConfig
from full_runs.trainer.launch import Assembly, environment, torchrun
from tests.full_runs.trainer import tiny

HERE = sorted(pinned.usable() or ())
CONFIG = TrainerConfig(model="m", estimator="grpo")


def test_the_watched_rank_is_watched_on_cores_too_and_threads_are_as_many_as_cores() -> None:
    free, on_cores = (Assembly(id="a", ranks_a_node=2, cores=cores) for cores in ((), ((4, 5), (6, 7))))
    words = torchrun(on_cores, 0, Path("x"))
    assert words[2:4] == ["full_runs.pinned", "4,5,6,7"]
    assert words[words.index("full_runs.pinned", 4) + 1] == "4,5:6,7"
    plain = torchrun(free, 0, Path("x"))
    assert words[-4:] == plain[-4:]  # what the worker is told
    assert plain[-1] == "--watched"
    inherited = {"OMP_NUM_THREADS": "64"}
    assert environment(free, CONFIG, inherited)["OMP_NUM_THREADS"] == "64"
    assert environment(on_cores, CONFIG, inherited)["OMP_NUM_THREADS"] == "2"


@pytest.mark.skipif(len(HERE) < 2, reason="this process may use one core, or none can be chosen")
def test_every_thread_of_a_rank_is_on_its_cores(tmp_path: Path) -> None:
    pytest.importorskip("transformers", reason=tiny.WHY)
    config = TrainerConfig(model=tiny.qwen(tmp_path / "model"), estimator="grpo")
    own = ((HERE[0],), (HERE[1],))
    with TrainerClient(tmp_path / "trainer").start(config, 2, cores=own) as client:
        lesson = tiny.lesson(0)
        assert client.train(lesson.batch, lesson.prompts)["refused"] == 0
        ranks = client.process_ids()
        assert [cores_of(pid) for pid in ranks] == [{cores} for cores in own]
        (parent,) = {parent_of(pid) for pid in ranks}
        assert cores_of(parent) == {(HERE[0], HERE[1])}


def cores_of(pid: int) -> set[tuple[int, ...]]:
    """Of every thread."""
    threads = [int(entry.name) for entry in Path(f"/proc/{pid}/task").iterdir()]
    assert threads
    return {tuple(sorted(os.sched_getaffinity(thread))) for thread in threads}


def parent_of(pid: int) -> int:
    status = Path(f"/proc/{pid}/status").read_text()
    (line,) = (line for line in status.splitlines() if line.startswith("PPid:"))
    return int(line.split()[1])
