from pathlib import Path

import pytest

from simulator.command_line import BadInputError
from simulator.studies.ask import ask, listing, must_be_a_studys, question
from simulator.studies.every import STUDIES
from simulator.studies.quick import ARMS, SIZES


def test_a_size_is_where_the_fields_start_from(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    small, full = ask(["quick"]), ask(["quick", "--size=full", "--learning-rate=1e-3"])
    assert (small.config, small.out) == (SIZES["small"], Path("runs/quick"))
    assert full.config == SIZES["full"].model_copy(update={"learning_rate": 1e-3})
    assert full.out == Path("runs/quick-full")  # a report of hours is not written over by one of minutes
    assert len(full.cells) == SIZES["full"].seeds * len(ARMS)
    assert ask(["quick", "--seeds", "2", "--size", "full"]).plan.seeds == 2
    assert not list(tmp_path.iterdir())


@pytest.mark.parametrize(
    ("words", "arms"),
    [
        ([], list(ARMS)),
        (["--only", "sao"], ["sao"]),
        (["--only", "grpo-*"], ["grpo-behaviour-clip", "grpo-dis"]),
        (["--only", "sao, *dis", "--only=grpo"], ["grpo", "grpo-dis", "sao"]),
    ],
)
def test_only_the_arms_that_match_are_run_and_all_are_registered(words: list[str], arms: list[str]) -> None:
    asked = ask(["quick", "--seeds=1", *words])
    assert [cell.arm for cell in asked.chosen] == arms
    assert [cell.arm for cell in asked.cells] == list(ARMS)


@pytest.mark.parametrize(
    ("words", "said"),
    [
        ([], "needs a name"),
        (["--jobs", "2"], "needs a name"),
        (["quik"], "no study 'quik'; did you mean quick?"),
        (["quick", "--size", "huge"], "size 'huge' of quick is none of small, full"),
        (["quick", "--only", "ppo*"], "only 'ppo*' matches no arm; there are grpo, "),
        (["quick", "--only", "gropo-dis"], "only 'gropo-dis' matches no arm; did you mean grpo-dis or grpo?"),
        (["clipping", "--only", "nobody"], "there are low0.1-high0.2-lag16, "),
        (["clipping", "--only", "nobody"], "low0.1-high5-lag64 and 6 more (--dry-run lists all)"),
        (["staleness", "--estimators", "gpro-dis"], "no estimator 'gpro-dis'; did you mean grpo-dis?"),
        (["staleness", "--estimators"], "--estimators: needs at least one estimator"),
        (["staleness", "--estimators", "sao", "wrong-name"], "no estimator 'wrong-name'; there are grpo, "),
        (["quick", "--jobs", "0"], "jobs must be at least 1, got 0"),
        (["quick", "--backend", "slurm"], "slurm"),
        (["quick", "--seeds", "0"], "seeds"),
    ],
)
def test_what_cannot_be_is_refused(words: list[str], said: str) -> None:
    with pytest.raises(BadInputError) as refused:
        ask(words)
    assert said in str(refused.value)


def test_estimators_may_be_written_with_dashes() -> None:
    """As arms and `policylag learn` have them; the configuration keeps its own way."""
    asked = ask(["barrier", "--estimators", "grpo-dis", "sao_running_mean_128", "--seeds", "1"])
    assert asked.config.model_dump()["estimators"] == ("grpo_dis", "sao_running_mean_128")
    assert list(asked.plan.arms) == ["grpo-dis", "sao-running-mean-128"]


def test_a_folder_that_can_be_no_studys_is_refused_before_any_run(tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    (tmp_path / "run").mkdir()
    (tmp_path / "run" / "rollouts.parquet").touch()
    for folder, said in (
        ("file", "is a file"),
        ("file/below/it", "is a file"),
        ("run", "holds rollouts.parquet and no study"),
    ):
        with pytest.raises(BadInputError, match=said):
            ask(["quick", "--dry-run", f"--out={tmp_path / folder}"])
    (tmp_path / "begun").mkdir()
    (tmp_path / "begun" / ".study.json.7.part").touch()  # killed at once
    for folder in ("begun", "new/and/deep"):
        must_be_a_studys(tmp_path / folder)
    assert sorted(path.name for path in tmp_path.iterdir()) == ["begun", "file", "run"]


def test_every_study_is_listed_with_its_question() -> None:
    for name in STUDIES:
        assert any(line.split() == [name, *question(name).split()] for line in listing().splitlines())
