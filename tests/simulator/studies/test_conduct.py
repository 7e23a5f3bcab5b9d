import json
from pathlib import Path

import pytest

import policylag
from tests.simulator.studies.test_runner import SMALL, grid


def test_a_failed_run_is_said_and_the_rest_is_judged(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    out = tmp_path / "study"
    broken = grid(1)[2]
    (broken.folder(out) / "in the way").mkdir(parents=True)  # a run is never written over another
    (out / "study.json").write_text("{}")
    flags = [f"--pipeline.{name.replace('_', '-')}={value}" for name, value in SMALL.items()]
    words = ["study", "quick", "--seeds=1", "--critic-update-s=0.1", *flags, f"--out={out}", "--jobs=2"]
    assert policylag.main([*words, "--quiet"]) == 1
    said = capsys.readouterr()
    assert f"policylag: grpo-dis, seed 0, failed ({broken.name})\nTraceback" in said.err
    assert "FileExistsError" in said.err
    assert "1 of 4 runs failed" in said.err
    assert f"missing runs: {broken.name}\n" in said.out
    assert "1 of 4 registered runs is missing." in (out / "report.html").read_text()
    failure = json.loads((out / "failures.json").read_text())[broken.name]
    assert (failure["arm"], failure["seed"]) == ("grpo-dis", 0)
    assert failure["error"].startswith("Traceback")

    (broken.folder(out) / "in the way").rmdir()
    assert policylag.main([*words, "--quiet", "--only=grpo,sao"]) == 0  # the others are not asked for
    assert not (broken.folder(out) / "meta.json").exists()
    assert policylag.main(words) == 0
    said = capsys.readouterr()
    assert "4 runs, 3 of them done already" in said.err
    assert "missing" not in said.out.splitlines()[-1]
    assert not (out / "failures.json").exists()
