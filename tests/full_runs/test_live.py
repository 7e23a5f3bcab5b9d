"""What is shown is what the journal holds, each update once, whatever happened on the way."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from tensorboard.backend.event_processing.event_accumulator import EventAccumulator

from full_runs.controller.journal import Journal
from full_runs.live import Live, tensorboard


def updated(journal: Journal, version: int, **metrics: float | None) -> None:
    start_s = float(version)
    journal.write(
        "update",
        version=version,
        wait_start_s=start_s,
        train_start_s=start_s,
        train_end_s=start_s + 1,
        rollouts=8,
        tokens=80,
        metrics=metrics,
    )


def shown(folder: Path, tag: str) -> list[tuple[int, float]]:
    read = EventAccumulator(str(folder))
    read.Reload()
    return [(event.step, event.value) for event in read.Scalars(tag)]


def live(folder: Path) -> tuple[Live, Journal]:
    journal = Journal(folder / "journal.jsonl")
    return Live(tensorboard, folder / "track", journal.path, name="one", config={}), journal


def test_each_update_is_on_the_disk_when_it_was_told(tmp_path: Path):
    told, journal = live(tmp_path)
    for version, reward in enumerate([0.25, 0.5, 0.75], start=1):
        updated(journal, version, reward=reward)
        assert told.told(version, {"reward": reward}) is None
        assert shown(tmp_path / "track", "reward")[-1] == (version, reward)
    told.close()
    journal.close()


def test_a_run_that_went_back_to_a_checkpoint_shows_each_update_once(tmp_path: Path):
    told, journal = live(tmp_path)
    for version in (1, 2, 3):
        updated(journal, version, reward=0.0)
        told.told(version, {"reward": 0.0})
    journal.write("resume", version=1)
    for version in (2, 3):
        updated(journal, version, reward=1.0)
        told.told(version, {"reward": 1.0})
    assert shown(tmp_path / "track", "reward") == [(1, 0.0), (2, 1.0), (3, 1.0)]
    told.close()
    journal.close()


def test_a_run_that_goes_on_in_another_process_shows_what_was_before(tmp_path: Path):
    told, journal = live(tmp_path)
    updated(journal, 1, reward=0.5)
    told.told(1, {"reward": 0.5})
    told.close()
    again = Live(tensorboard, tmp_path / "track", journal.path, name="one", config={})
    updated(journal, 2, reward=1.0, accuracy=None)
    again.told(2, {"reward": 1.0, "accuracy": float("nan")})
    assert shown(tmp_path / "track", "reward") == [(1, 0.5), (2, 1.0)]
    again.close()
    journal.close()


def test_a_tracker_that_fails_is_said_once_and_ends_nothing(tmp_path: Path):
    def full_disk(_folder: Path, _name: str, _config: Mapping[str, Any]) -> Any:
        raise OSError(28, "No space left on device")

    journal = Journal(tmp_path / "journal.jsonl")
    told = Live(full_disk, tmp_path / "track", journal.path, name="one", config={})
    updated(journal, 1, reward=0.5)
    assert "No space left" in (told.told(1, {"reward": 0.5}) or "")
    assert told.told(2, {"reward": 0.5}) is None
    told.close()
    journal.close()
