from __future__ import annotations

import json
from pathlib import Path

import pytest

from simulator.command_line import BadInputError
from simulator.config import PipelineConfig
from simulator.studies.ask import ask
from simulator.studies.conduct import conduct

BOUNDS = """
title = "How far ahead?"
seeds = 2

[every]
experiment = "bounded-lag"
slots = 64
engines = 1
rollouts_per_update = 16
updates = 8

[vary]
staleness.eta_batches = [1, 3]

[[claims]]
claim = "A looser bound is older"
metric = "mean_lag"
better_arm = "eta_batches=1"
worse_arm = "eta_batches=3"
direction = "lower"
"""


@pytest.fixture
def file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    path = tmp_path / "how_far.toml"
    path.write_text(BOUNDS)
    return path


def test_a_file_is_a_study(file: Path) -> None:
    asked = ask([file.name])
    assert (asked.plan.name, asked.plan.title, asked.out) == (
        "how-far",
        "How far ahead?",
        Path("runs/how-far"),
    )
    assert [cell.arm for cell in asked.cells] == ["eta_batches=1", "eta_batches=3"] * 2
    assert [cell.seed for cell in asked.cells] == [0, 0, 1, 1]
    assert all(isinstance(cell.config, PipelineConfig) for cell in asked.cells)
    (claim,) = asked.plan.hypotheses
    assert (claim.id, claim.source, claim.kind) == ("C1", "ours", "paired_difference")
    assert [picture["factor"] for picture in asked.plan.pictures] == ["eta_batches", "eta_batches"]


def test_flags_change_what_the_file_says(file: Path) -> None:
    asked = ask([str(file), "--seeds=1", "--first-seed", "5", "--only", "*=3"])
    assert [(cell.arm, cell.seed) for cell in asked.chosen] == [("eta_batches=3", 5)]


def test_it_runs_resumes_and_its_record_is_the_same_study(file: Path) -> None:
    asked = ask([file.name, "--quiet", "--jobs=1"])
    assert conduct(asked)
    assert all(cell.is_done(asked.out) for cell in asked.cells)
    registered = json.loads((asked.out / "study.json").read_text())
    assert registered["hypotheses"][0]["claim"] == "A looser bound is older"
    again = ask([str(asked.out / "config.json")])
    assert again.plan.name == "how-far"
    assert [cell.name for cell in again.cells] == [cell.name for cell in asked.cells]


def test_its_record_names_the_arms_alike_whatever_the_order_of_what_varies(file: Path) -> None:
    text = BOUNDS.replace("[vary]", "[vary]\nslots = [64]\npush_s = [1.0]").split("[[claims]]")[0]
    file.write_text(text.replace("slots = 64\n", ""))
    asked = ask([file.name, "--seeds=1", "--quiet", "--jobs=1"])
    assert next(iter(asked.plan.arms)) == "slots=64+push_s=1+eta_batches=1"
    assert conduct(asked)
    assert list(ask([str(asked.out / "config.json")]).plan.arms) == list(asked.plan.arms)


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("", "arms: there are none"),
        ("seeds = 0", "seeds"),
        ("colour = 3", "colour"),
        ("arms = 3", "arms"),
        ("no toml", "mine.toml"),
        ("vary.slots = 3", "vary: slots is 3"),
        ("vary.slots = []", r"vary: slots is \[\]"),
        ("every.experiment = 'groups'\narms.'a b' = {}", "'a b' is no name"),
        ("every.experiment = 'groups'\narms.a = {}\n[[claims]]\nmetrik = 'x'", "claims.1: no field 'metrik'"),
        (
            "every.experiment = 'groups'\narms.a = {}\n[[claims]]\nid = 'X'\nclaim = 'x'\nmetric = 'mean_lag'"
            "\nbetter_arm = 'a'\nworse_arm = 'b'",
            r"X names \['b'\]",
        ),
    ],
)
def test_what_cannot_be_is_one_line(
    text: str, said: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    Path("mine.toml").write_text(text)
    with pytest.raises(BadInputError, match=said) as refused:
        ask(["mine.toml"])
    assert "\n" not in str(refused.value)
    assert [path.name for path in tmp_path.iterdir()] == ["mine.toml"]


def test_names_of_ours_and_files_that_are_not_there(tmp_path: Path) -> None:
    (tmp_path / "quick.toml").write_text(BOUNDS)
    for word, said in (("quick.toml", "rename the file"), ("none.toml", "No such file")):
        with pytest.raises(BadInputError, match=said):
            ask([str(tmp_path / word)])
    (tmp_path / "mine.toml").write_text(BOUNDS)
    with pytest.raises(BadInputError, match="size 'full' of mine is none of small"):
        ask([str(tmp_path / "mine.toml"), "--size", "full"])
