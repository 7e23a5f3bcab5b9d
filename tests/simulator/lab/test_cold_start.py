"""A warm start that does not reach its accuracy: one line that says so, and no other run is harmed."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

import policylag
from simulator.lab.worlds import StyleDriftWorld

WORLD = ["--world.width=8", "--world.depth=1", "--world.heads=1", "--world.warm-start-steps=10"]
SAID = "world.warm_start_accuracy is 0.9: 10 steps (warm_start_steps) of 128 demonstrations reached 0."


def test_learn_refuses_it_in_one_line(capsys: pytest.CaptureFixture[str]) -> None:
    words = ["learn", "grpo", "--world=style-drift", *WORLD, "--world.warm-start-accuracy=0.9", "--quiet"]
    assert policylag.main(words) == 2
    said = capsys.readouterr()
    assert said.out == ""
    assert said.err.startswith(f"policylag learn grpo: {SAID}")
    assert said.err.count("\n") == 1


def test_a_dry_run_says_it_too(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    words = ["study", "barrier", *WORLD, "--world.warm-start-accuracy=0.9", f"--out={tmp_path}", "--dry-run"]
    assert policylag.main([*words, "--quiet", "--only=grpo"]) == 2
    said = capsys.readouterr().err
    assert said.startswith(f"policylag study: {SAID}")
    assert said.count("\n") == 1


def test_in_a_study_its_runs_fail_each_for_itself(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    words = ["study", "barrier", *WORLD, "--world.warm-start-accuracy=0.9", "--seeds=1", f"--out={tmp_path}"]
    assert policylag.main([*words, "--quiet", "--jobs=1", "--only=grpo,sao"]) == 1
    said = capsys.readouterr().err
    assert said.count(f"NotReachedError: {SAID}") == 2
    failures = json.loads((tmp_path / "failures.json").read_text())
    assert sorted(failure["arm"] for failure in failures.values()) == ["grpo", "sao"]


def test_steps_that_cannot_be_are_refused() -> None:
    with pytest.raises(ValueError, match="warm_start_steps"):
        StyleDriftWorld(warm_start_steps=0)
