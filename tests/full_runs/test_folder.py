"""A folder is nobody's, or an unfinished run's that goes on with the same settings; else it is refused."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest

from full_runs.configs.ready import tiny_cpu
from full_runs.folder import FINISHED, claimed, named, new_or_unfinished
from simulator.command_line import BadInputError

CONFIG = tiny_cpu()


def unfinished(out: Path) -> Path:
    """As a process leaves it that was killed."""
    with claimed(out, CONFIG):
        pass
    (out / "journal.jsonl").touch()
    return out


def test_an_unfinished_run_goes_on_with_the_same_settings_on_other_machines(tmp_path):
    out = unfinished(tmp_path / "x")
    assert new_or_unfinished(out, CONFIG) == out
    assert new_or_unfinished(out, tiny_cpu(ranks=1, engines=2, trainer_cores="0", stall_limit_s=5.0)) == out
    with pytest.raises(BadInputError, match=r"unfinished run whose learning_rate is 0\.0002, not 0\.1$"):
        new_or_unfinished(out, tiny_cpu(learning_rate=0.1))


def test_what_is_finished_or_no_run_at_all_is_never_written_over(tmp_path):
    out = unfinished(tmp_path / "x")
    (out / FINISHED).mkdir()
    other = tmp_path / "other"
    other.mkdir()
    assert new_or_unfinished(other, CONFIG) == other
    (other / "file").touch()
    for folder in (out, other, other / "file"):
        with pytest.raises(BadInputError, match="is not an empty folder"):
            new_or_unfinished(folder, CONFIG)


@pytest.mark.parametrize("text", ["", "{", "[]", '{"updates": 0}', '{"no_such_field": 1}'])
def test_settings_that_cannot_be_read_are_one_line(tmp_path, text):
    out = unfinished(tmp_path / "x")
    (out / "config.json").write_text(text)
    with pytest.raises(BadInputError, match=r"config\.json: ") as refused:
        new_or_unfinished(out, CONFIG)
    assert "\n" not in str(refused.value)


def test_without_a_name_it_is_the_unfinished_one_or_the_next_that_is_free(tmp_path):
    first = named("tiny-cpu", CONFIG, runs=tmp_path)
    assert first == tmp_path / "full-tiny-cpu-001"
    unfinished(first)
    assert named("tiny-cpu", CONFIG, runs=tmp_path) == first
    second = named("tiny-cpu", tiny_cpu(seed=1), runs=tmp_path)
    assert second == tmp_path / "full-tiny-cpu-002"
    (first / FINISHED).mkdir()
    assert named("tiny-cpu", CONFIG, runs=tmp_path) == second


def test_a_folder_is_one_process_and_free_again_when_that_is_killed(tmp_path):
    out = tmp_path / "x"
    code = (
        "import sys, time; from pathlib import Path; from full_runs.folder import claimed;"
        "from full_runs.configs.ready import tiny_cpu\n"
        "with claimed(Path(sys.argv[1]), tiny_cpu()): print('mine', flush=True); time.sleep(600)"
    )
    with subprocess.Popen([sys.executable, "-c", code, str(out)], stdout=subprocess.PIPE) as holder:
        assert holder.stdout is not None
        assert holder.stdout.readline() == b"mine\n"
        assert json.loads((out / "config.json").read_text())["ranks"] == 2
        with pytest.raises(BadInputError, match="another process runs in"):
            new_or_unfinished(out, CONFIG)
        with pytest.raises(BadInputError, match="another process runs in"), claimed(out, CONFIG):
            pass
        assert named("x", CONFIG, runs=tmp_path) == tmp_path / "full-x-001"
        holder.kill()
    assert new_or_unfinished(out, CONFIG) == out
