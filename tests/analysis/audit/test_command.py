"""`policylag audit` as a user meets it."""

import json

import numpy as np
import pytest

import policylag
from tests.analysis.audit.logs import healthy, write_verl


@pytest.fixture
def creeping(tmp_path):
    noise = np.random.default_rng(0).normal(scale=0.1, size=120)
    return write_verl(tmp_path, healthy(1) | {"lag_mean": 1 + 0.05 * np.arange(120) + noise})


def test_the_verdict_comes_first_and_the_change_is_in_the_systems_words(creeping, capsys):
    assert policylag.main(["audit", str(creeping)]) == 0
    said = capsys.readouterr().out
    assert said.startswith("1 problem; first, lag_mean rose from")
    assert "change: lower async_training.staleness_threshold" in said
    assert "lag: verl: trainer step - 1 - oldest version" in said
    assert "not checked:" in said


@pytest.mark.parametrize("width", ["20", "40", "200"])
def test_no_line_is_wider_than_the_terminal_but_for_a_long_word(creeping, capsys, monkeypatch, width):
    monkeypatch.setenv("COLUMNS", width)
    policylag.main(["audit", str(creeping)])
    for line in capsys.readouterr().out.splitlines():
        assert len(line) <= max(int(width), 22) or " " not in line.strip()


def test_json_is_one_object_and_nothing_else(creeping, capsys):
    assert policylag.main(["audit", str(creeping), "--json"]) == 0
    said = json.loads(capsys.readouterr().out)
    assert said["worst"] == "problem"
    assert said["system"] == "verl"
    assert said["findings"][0]["check"] == "lag creeps up"
    assert {"check", "question", "missing"} == set(said["not_checked"][0])


@pytest.mark.parametrize(("fail_on", "status"), [("never", 0), ("warning", 1), ("problem", 1)])
def test_exit_status_follows_what_was_asked_for(creeping, fail_on, status):
    assert policylag.main(["audit", str(creeping), f"--fail-on={fail_on}"]) == status


def test_a_healthy_log_fails_on_nothing(tmp_path):
    assert policylag.main(["audit", str(write_verl(tmp_path, healthy(2))), "--fail-on", "warning"]) == 0


@pytest.mark.parametrize(
    ("words", "said"),
    [
        ([], "needs a log"),
        (["nowhere.jsonl"], "nowhere.jsonl"),
        (["{log}", "--alias", "lag"], "THEIR_NAME=OUR_NAME"),
        (["{log}", "--alias", "lag=age"], "no column 'age'"),
        (["{log}", "--fail-on", "sometimes"], "sometimes"),
        (["{empty}"], "is empty"),
    ],
)
def test_bad_input_is_one_line_and_status_2(creeping, tmp_path, capsys, words, said):
    (tmp_path / "empty").touch()
    given = [word.format(log=creeping, empty=tmp_path / "empty") for word in words]
    assert policylag.main(["audit", *given]) == 2
    captured = capsys.readouterr()
    assert captured.out == ""
    assert captured.err.count("\n") == 1
    assert said in captured.err


def test_a_bound_and_an_alias_are_used(tmp_path, capsys):
    path = tmp_path / "log.csv"
    path.write_text("step,age\n" + "".join(f"{i},{i % 7}\n" for i in range(40)))
    words = ["audit", str(path), "--alias", "age=lag_max", "--lag-bound", "5", "--fail-on", "problem"]
    assert policylag.main(words) == 1
    assert "above the bound of 5" in capsys.readouterr().out
