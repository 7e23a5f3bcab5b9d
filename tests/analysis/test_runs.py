import pytest

from analysis.runs import is_run, load_run, load_runs, named_apart, run_folders
from tests.analysis.factories import recorded


@pytest.fixture
def study(tmp_path):
    for arm in ("sao", "grpo"):
        for seed in (0, 1):
            recorded([0.1, 0.2]).log().write(
                tmp_path / "cells" / f"{arm}-seed{seed}",
                config={"slots": 4},
                meta={"arm": arm, "seed": seed, "clock": "simulated"},
            )
    (tmp_path / "cells" / ".grpo-seed2.part").mkdir()
    return tmp_path


def test_what_was_written_is_what_is_read(study):
    run = load_run(study / "cells" / "sao-seed1")
    assert (run.arm, run.seed, run.clock, run.config) == ("sao", 1, "simulated", {"slots": 4})
    assert run.updates["accuracy"].tolist() == [0.1, 0.2]
    assert run.rollouts["status"].tolist() == ["trained", "trained"]


def test_a_study_is_the_runs_in_its_cells_by_name_and_no_unfinished_one(study):
    assert [f.name for f in run_folders(study)] == ["grpo-seed0", "grpo-seed1", "sao-seed0", "sao-seed1"]
    read = [(run.arm, run.seed) for run in load_runs(study)]
    assert read == [("grpo", 0), ("grpo", 1), ("sao", 0), ("sao", 1)]


def test_a_single_run_without_header_is_called_by_its_folder(tmp_path):
    recorded(None).log().write(tmp_path / "my-run")
    assert is_run(tmp_path / "my-run")
    assert load_run(tmp_path / "my-run").arm == "my-run"


def test_what_is_no_run_is_named(tmp_path):
    with pytest.raises(FileNotFoundError, match="holds no recorded run"):
        run_folders(tmp_path)
    with pytest.raises(FileNotFoundError, match=r"lacks rollouts.parquet"):
        load_run(tmp_path)
    recorded(None).log().write(tmp_path / "run", meta={"clock": "sundial"})
    with pytest.raises(ValueError, match="sundial"):
        load_run(tmp_path / "run")
    (tmp_path / "run" / "meta.json").write_text("{")
    with pytest.raises(ValueError, match=r"meta.json is not JSON"):
        load_run(tmp_path / "run")


def test_runs_of_one_arm_and_other_settings_are_arms_of_their_own(study, tmp_path):
    folder = tmp_path / "wider"
    recorded([0.3]).log().write(
        folder,
        config={"slots": 8, "seed": 0, "engines": 1},
        meta={"arm": "sao", "seed": 0, "clock": "simulated"},
    )
    runs, said = named_apart(study / "cells" / "grpo-seed0", study / "cells" / "sao-seed0", folder)
    assert [(run.arm, run.updates["accuracy"].iloc[-1]) for run in runs] == [
        ("grpo", 0.2),
        ("sao, slots 4", 0.2),
        ("sao, slots 8", 0.3),
    ]
    assert said["settings of sao, slots 8"] == "slots 8, engines 1"


def test_runs_that_differ_in_seeds_alone_stay_one_arm(study):
    runs, said = named_apart(study)
    assert [run.arm for run in runs] == ["grpo", "grpo", "sao", "sao"]
    assert said == {}
