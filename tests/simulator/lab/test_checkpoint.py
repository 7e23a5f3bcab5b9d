"""A run that was killed goes on bit for bit: its log is that of a run which was not."""

from pathlib import Path

import pytest

from simulator.lab.checkpoint import FILE, Checkpoints
from simulator.lab.config import LearnConfig
from simulator.lab.run import learn
from tests.simulator.lab.test_bridge import tiny
from tests.simulator.lab.worlds import imposed


class KilledError(Exception):
    """In place of a signal."""


def kill_after(updates: int):  # type: ignore[no-untyped-def]
    def progress(done: int) -> None:
        if done == updates:
            raise KilledError

    return progress


def by_history() -> LearnConfig:
    """A running mean of each prompt's rewards, which come again."""
    config = tiny("sao_running_mean", critic_updates=0, critic_update_s=0.0, group_size=1)
    return config.model_copy(update={"distinct_prompts": 8})


@pytest.mark.parametrize(
    "config",
    [
        tiny("sao"),
        tiny("grpo", updates_per_batch=1),
        by_history(),
        tiny("grpo_gac"),
        imposed("grpo_dis", lag=5, updates=24, rollouts=16).config,
        imposed("sao", lag=5, updates=24, rollouts=16, group_size=1, critic_updates=2).config,
    ],
    ids=["sao", "grpo", "running mean", "control", "imposed", "imposed critic"],
)
def test_killed_at_any_update_the_log_is_the_same(config: LearnConfig, tmp_path: Path) -> None:
    whole = learn(config).log.digest()
    for killed_after in (3, 9, 17):
        with pytest.raises(KilledError):
            learn(
                config,
                checkpoints=Checkpoints(folder=tmp_path, every_updates=4),
                progress=kill_after(killed_after),
            )
    assert (tmp_path / FILE).is_file()
    resumed = Checkpoints(folder=tmp_path, every_updates=4)
    assert learn(config, checkpoints=resumed).log.digest() == whole
    # It is the caller's to remove, once the log is safe.
    assert (tmp_path / FILE).is_file()
    resumed.remove()
    assert not (tmp_path / FILE).exists()


def test_a_run_goes_on_from_where_it_was_kept(tmp_path: Path) -> None:
    config = tiny("grpo")
    kept = Checkpoints(folder=tmp_path, every_updates=8)
    with pytest.raises(KilledError):
        learn(config, checkpoints=kept, progress=kill_after(20))
    again = Checkpoints(folder=tmp_path, every_updates=8)
    from simulator.lab.student import Student

    assert again.restore(Student(config)) == 16


def test_a_checkpoint_of_another_run_is_refused(tmp_path: Path) -> None:
    with pytest.raises(KilledError):
        learn(tiny("grpo"), checkpoints=Checkpoints(folder=tmp_path, every_updates=2), progress=kill_after(8))
    with pytest.raises(ValueError, match="another configuration"):
        learn(tiny("grpo", seed=1), checkpoints=Checkpoints(folder=tmp_path))


def test_a_broken_checkpoint_is_refused(tmp_path: Path) -> None:
    (tmp_path / FILE).write_bytes(b"not a checkpoint")
    with pytest.raises(ValueError, match="is no checkpoint"):
        learn(tiny("grpo"), checkpoints=Checkpoints(folder=tmp_path))


def test_keeping_less_often_than_never_is_refused(tmp_path: Path) -> None:
    with pytest.raises(ValueError, match="every_updates must be at least 1, got 0"):
        Checkpoints(folder=tmp_path, every_updates=0)
