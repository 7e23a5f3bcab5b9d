import json
from pathlib import Path

import pytest

import policylag
from simulator.studies.cells import run_cell
from simulator.studies.forecast import forecast, kinds, makespan, trial
from simulator.studies.plan import cells
from simulator.studies.quick import QuickStudy, plan
from tests.simulator.studies.test_runner import SMALL, grid


def test_each_run_goes_to_the_first_that_is_free() -> None:
    # By hand: 5 | 3, 3 from 3 to 6; 2 from 5 to 7.
    assert makespan([5, 3, 3, 2], 2) == 7
    assert makespan([5, 3, 3, 2], 1) == 13
    assert makespan([5, 3, 3, 2], 9) == 5
    assert makespan([], 2) == 0


def test_runs_are_of_one_kind_if_they_differ_in_what_costs_no_time() -> None:
    runs = grid(3)
    faster = QuickStudy(seeds=2, pipeline=QuickStudy().pipeline, learning_rate=1e-3)
    assert [len(kind) for kind in kinds(runs).values()] == [3, 3, 3, 3]
    slow, fast = cells(plan(QuickStudy(seeds=2))), cells(plan(faster))
    assert [len(kind) for kind in kinds([*slow, *fast]).values()] == [4, 4, 4, 4]
    assert len(kinds([runs[0], slow[0]])) == 2


def test_a_trial_of_a_short_run_is_the_run_and_of_a_long_one_its_beginning() -> None:
    config = grid(1)[0].config
    updates, seconds = trial(config, 1e9)
    assert updates == SMALL["updates"]
    assert seconds > 0
    updates, seconds = trial(config, 0.0)
    assert updates == 3
    assert seconds > 0


def test_finished_runs_say_how_long_the_others_take(tmp_path: Path) -> None:
    runs = grid(3)
    of_one_arm = [cell for cell in runs if cell.arm == "grpo"]
    for cell, took_s in zip(of_one_arm, (7.0, 9.0), strict=False):
        run_cell(cell, tmp_path)
        meta = cell.folder(tmp_path) / "meta.json"
        written = json.loads(meta.read_text())
        assert written["took_s"] > 0
        meta.write_text(json.dumps(written | {"took_s": took_s}))
    seen: list[None] = []
    missing = [of_one_arm[2], of_one_arm[2]]
    found = forecast(missing, tmp_path, jobs=1, advance=lambda: seen.append(None))
    (kind,) = found.kinds
    assert (kind.seconds, kind.seconds_most, kind.basis) == (8.0, 9.0, "2 finished")
    assert (found.seconds, found.seconds_most, found.jobs) == (16.0, 18.0, 1)
    assert len(seen) == 1


def test_a_dry_run_is_one_object_and_leaves_nothing(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    flags = [f"--pipeline.{name.replace('_', '-')}={value}" for name, value in SMALL.items()]
    words = ["study", "quick", "--seeds=2", "--critic-update-s=0.1", "--only=sao", "--dry-run", *flags]
    assert policylag.main([*words, "--json", "--jobs=1"]) == 0
    said = capsys.readouterr()
    found = json.loads(said.out)
    assert said.err == ""
    assert found["missing"] == [cell.name for cell in grid(2) if cell.arm == "sao"]
    (kind,) = found["kinds"]
    assert (kind["arms"], kind["runs"], found["jobs"]) == (["sao"], 2, 1)
    assert found["seconds"] == pytest.approx(2 * kind["seconds"])
    assert found["seconds_most"] == pytest.approx(2 * found["seconds"])
    assert "trial" in kind["basis"]
    assert "twice" in found["method"]
    assert policylag.main(words) == 0
    assert "2 runs are missing" in capsys.readouterr().out
    assert not list(tmp_path.iterdir())
