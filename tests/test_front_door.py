"""The command line as a user meets it: what it refuses, in which words, and what it leaves behind."""

import json
import math
import os
import subprocess
import sys
from pathlib import Path

import pytest

import policylag

ROOT = Path(__file__).resolve().parents[1]
SMALL = [
    "--slots=32",
    "--rollouts-per-update=16",
    "--updates-per-batch=2",
    "--updates=16",
    "--policy-update-s=0.1",
]
STUDY = [f"--pipeline.{flag[2:]}" for flag in SMALL] + ["--seeds=3", "--critic-update-s=0.1"]


def refused(words: list[str], capsys: pytest.CaptureFixture[str]) -> str:
    """The one line on stderr; exit status 2 and an empty stdout are asserted on the way."""
    status = policylag.main(words)
    said = capsys.readouterr()
    assert status == 2
    assert said.out == ""
    assert said.err.count("\n") == 1, said.err
    return said.err


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (["simulat"], ["no subcommand 'simulat'", "simulate"]),
        (["simulate", "asynch"], ["no experiment 'asynch'", "did you mean sync?"]),
        (["simulate", "0"], ["no experiment '0'", "one-step-off"]),
        (["learn", "gpro"], ["no estimator 'gpro'", "grpo"]),
        (["simulate", "--bogus", "3"], ["--bogus"]),
        (["simulate", "--policy-update-s", "nan"], ["policy_update_s", "nan"]),
        (["simulate", "--policy-update-s", "-1"], ["policy_update_s", "-1"]),
        (["simulate", "--push-s", "inf"], ["push_s", "inf"]),
        (["simulate", "--engine.seconds-per-token", "0"], ["engine.seconds_per_token", "0"]),
        (["simulate", "--slots", "many"], ["--slots", "many"]),
        (["simulate", "--slots", "12"], ["slots (12)", "engines (8)"]),
        (["simulate", "--queue-capacity-rollouts", "100"], ["queue_capacity_rollouts (100)", "512"]),
        (["simulate", "--max-outstanding-rollouts", "511"], ["max_outstanding_rollouts (511)", "512"]),
        (
            ["simulate", "lengths:lognormal", "--lengths.mean-tokens", "-4", "--lengths.sd-tokens", "3"],
            ["lengths.mean_tokens", "-4"],
        ),
        (["simulate", "drop-by-age", "--staleness.max-lag-updates", "1"], ["max_lag_updates"]),
        (["learn", "grpo", "--pipeline.group-size", "1"], ["group_size is 1", "no signal"]),
        (["learn", "sao", "--pipeline.group-size", "8"], ["group_size is 8"]),
        (["learn", "--learning-rate", "0"], ["learning_rate", "0"]),
        (["study", "quick", "--jobs", "0"], ["jobs", "0"]),
        (["study", "quick", "--pipeline.group-size", "3"], ["rollouts_per_update (128)", "group_size (3)"]),
        (["study", "quick", "--pipeline.group-size", "1"], ["group_size is 1"]),
        (["report", "no/such/run"], ["no/such/run"]),
        (["bias"], ["needs an estimator", "grpo-dis"]),
        (["bias", "grpo", "ppo2"], ["no estimator 'ppo2'"]),
        (["bias", "grpo", "--lags", "-1"], ["lags", "-1"]),
        (["bias", "grpo", "--worlds", "1"], ["worlds", "1"]),
        (["simulate", "--config"], ["--config"]),
        (["simulate", "--config", "no-such.toml"], ["no-such.toml"]),
        (["simulate", "--lengths-csv", "no-such.csv"], ["lengths_csv", "no-such.csv"]),
        (["simulate", "lengths:trace", "--lengths.path", "no-such.csv"], ["lengths", "no-such.csv"]),
        (["simulate", "--engine.seconds-per-token", "1e308"], ["seconds_per_token", "1e+308"]),
        (["simulate", "--slots", "1000000000"], ["slots", "1000000000"]),
        (["simulate", "lengths:fixed", "--lengths.tokens", "9007199254740992"], ["lengths.tokens"]),
        (["learn", "--pipeline.seed", "18446744073709551616"], ["seed", "18446744073709551616"]),
        (["simulate", "--out", "/proc/x/y"], ["out", "/proc/x"]),
        (
            ["study", "quick", "pipeline.staleness:bounded-lag", "--pipeline.staleness.eta-batches", "-1"],
            ["pipeline.staleness.eta_batches", "-1"],
        ),
    ],
)
def test_bad_input_is_one_line_that_names_field_and_value(
    words: list[str],
    said: list[str],
    capsys: pytest.CaptureFixture[str],
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.chdir(tmp_path)
    line = refused(words, capsys)
    assert all(part in line for part in said), line
    assert not list(tmp_path.iterdir())  # nothing half-written


@pytest.mark.parametrize(
    ("content", "said"),
    [
        ("", "no column 'tokens'"),
        ("tokens\n", "none of 0 rows"),
        (
            "tokens\nx\n-1\nnan\n",
            "line 2: 'x' is not a number; line 3: '-1' is negative; line 4: 'nan' is NaN",
        ),
        ("length\n5\n", "no column 'tokens'; it has ['length']"),
        ("tokens,tokens\n5,6\n", "more than one column 'tokens'"),
        ("tokens\n1,234\n1_000\n", "is followed by too many fields; line 3: '1_000' is not a number"),
        ('tokens\n"5\n6\n', "is not a CSV file"),
        ("tokens\n\xff\xfe", "is not a CSV file"),
    ],
)
@pytest.mark.parametrize("command", [["simulate"], ["learn"], ["study", "quick"]])
def test_a_csv_without_a_usable_length_is_refused(
    command: list[str],
    content: str,
    said: str,
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "t.csv").write_text(content, encoding="latin-1")
    assert said in refused([*command, "--lengths-csv", "t.csv"], capsys)
    assert [path.name for path in tmp_path.iterdir()] == ["t.csv"]


def test_refused_rows_of_a_usable_csv_are_named(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    trace = tmp_path / "t.csv"
    trace.write_text("n\r\n100\r\n0\r\n200\r\ninf\r\n2.5\r\n")
    words = ["simulate", *SMALL, "--lengths-csv", str(trace), "--lengths-column", "n"]
    assert policylag.main(words) == 0
    said = capsys.readouterr().err
    assert "2 lengths, 3 rows refused" in said
    for reason in ("line 3: '0' is zero", "line 5: 'inf' is infinite", "line 6: '2.5' is not a whole number"):
        assert reason in said


def printed(words: list[str], **environment: str) -> str:
    command = [sys.executable, "policylag.py", *words]
    env = os.environ | environment
    return subprocess.run(command, cwd=ROOT, env=env, check=True, capture_output=True, text=True).stdout


def test_equal_seeds_have_equal_digests_in_two_processes_and_other_seeds_another() -> None:
    words = ["simulate", "single", *SMALL, "--json"]
    digests = [
        json.loads(printed([*words, f"--seed={seed}"], PYTHONHASHSEED=salt))["digest"]
        for seed, salt in ((1, "0"), (1, "5"), (2, "0"))
    ]
    assert digests[0] == digests[1] != digests[2]


def test_json_is_one_object_and_nothing_else() -> None:
    for words in (["simulate", *SMALL], ["learn", "sao", *[f"--pipeline.{flag[2:]}" for flag in SMALL]]):
        found = json.loads(printed([*words, "--json"]))
        assert found["updates"] == 16
        assert 0 <= found["trainer_idle"] <= 1


def test_bias_is_zero_on_fresh_data_and_grows_with_lag(tmp_path: Path) -> None:
    words = ["bias", "grpo", "sao", "--lags", "0", "8", "--worlds", "3", "--json", f"--out={tmp_path / 'b'}"]
    rows = json.loads(printed(words))["estimators"]
    for name in ("grpo", "sao"):
        fresh, stale = (row["relative_bias"] for row in rows if row["estimator"] == name)
        assert fresh < 1e-9 < 0.01 < stale
    assert (tmp_path / "b" / "table.csv").is_file()


def test_a_cap_clips_and_says_how_much() -> None:
    words = ["lengths:exponential", "--lengths.mean-tokens=100", "--lengths.max-tokens=100"]
    found = json.loads(printed(["simulate", *SMALL, *words, "--json"]))
    assert found["clipped_length_share"] == pytest.approx(math.exp(-1), abs=0.002)  # half a token's rounding
    assert json.loads(printed(["simulate", *SMALL, "--json"]))["clipped_length_share"] == 0.0


def test_a_written_configuration_can_be_passed_in_again(tmp_path: Path) -> None:
    first = json.loads(printed(["simulate", "sync", *SMALL, "--json", f"--out={tmp_path / 'run'}"]))
    again = json.loads(printed(["simulate", "--config", str(tmp_path / "run" / "config.json"), "--json"]))
    assert first["digest"] == again["digest"]
    meta = json.loads((tmp_path / "run" / "meta.json").read_text())
    assert meta["digest"] == first["digest"]
    assert meta["clock"] == "simulated"
    assert meta["versions"]["torch"]


def test_a_learning_run_is_named_by_its_estimator(tmp_path: Path) -> None:
    """Not by the experiment whose fields were changed into it."""
    flags = [f"--pipeline.{flag[2:]}" for flag in SMALL]
    first = json.loads(printed(["learn", "grpo-dis", *flags, "--json", f"--out={tmp_path / 'one'}"]))
    again = json.loads(printed(["learn", f"--config={tmp_path / 'one' / 'config.json'}", "--json"]))
    assert (first["arm"], first["digest"]) == (again["arm"], again["digest"])
    assert json.loads((tmp_path / "one" / "meta.json").read_text())["arm"] == "grpo-dis"


def test_a_law_without_a_mean_is_warned_of() -> None:
    words = ["lengths:pareto", "--lengths.shape=0.9", "--lengths.minimum-tokens=10"]
    command = [sys.executable, "policylag.py", "simulate", *SMALL, *words]
    done = subprocess.run(command, cwd=ROOT, check=True, capture_output=True, text=True)
    assert "infinite" in done.stderr
    assert "Traceback" not in done.stderr


def test_a_run_is_never_written_over_another(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (tmp_path / "mine.txt").write_text("precious")
    assert "not an empty folder" in refused(["simulate", *SMALL, f"--out={tmp_path}"], capsys)
    assert (tmp_path / "mine.txt").read_text() == "precious"


def test_a_small_study_from_words_to_verdicts(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    out = tmp_path / "quick"
    words = ["study", "quick", *STUDY, f"--out={out}", "--jobs=2", "--quiet"]
    assert policylag.main(words) == 0
    said = capsys.readouterr().out
    for measure in ("lag, mean", "lag, p99", "trainer idle", "engine idle", "hours", "final accuracy"):
        assert measure in said
    for measure in ("collapsed", "masked tokens", "flat tokens", "to target"):
        assert measure in said
    claims = [line for line in said.splitlines() if line.startswith("H")]
    assert len(claims) == 6
    verdicts = ("supported", "contradicted", "not separable")
    assert all(any(verdict in line for verdict in verdicts) for line in claims)
    page = (out / "report.html").read_text()
    assert page.count("<svg") >= 5
    assert "http://" not in page.replace("http://www.w3.org", "")
    trace = json.loads((out / "trace.json").read_text())
    assert trace["traceEvents"]
    assert json.loads((out / "config.json").read_text())["seeds"] == 3
    assert len(list((out / "cells").iterdir())) == 12
    assert policylag.main(["report", str(out)]) == 0
    assert (out / "report.html").read_text() == page  # made again, byte for byte
    elsewhere = tmp_path / "not" / "there" / "page.html"
    assert policylag.main(["report", str(out), "--out", str(elsewhere)]) == 0
    assert elsewhere.is_file()
    assert policylag.main([*words, "--json"]) == 0  # everything is there already
    assert len(json.loads(capsys.readouterr().out.splitlines()[-1])["claims"]) == 6


CLAIMS = """
title = "Concurrency"
[[claims]]
claim = "With twice the slots, slots wait more"
metric = "engine_idle"
better_arm = "bounded-lag, slots 32"
worse_arm = "bounded-lag, slots 64"
direction = "lower"
"""


def test_runs_made_one_by_one_are_judged_by_a_file_of_claims(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    runs = []
    for slots in (32, 64):
        for seed in range(3):
            runs.append(f"{slots}-{seed}")
            small = ("--engines=1", "--rollouts-per-update=8", "--updates=16", f"--out={runs[-1]}", "--quiet")
            words = ["simulate", "bounded-lag", f"--slots={slots}", f"--seed={seed}", *small]
            assert policylag.main(words) == 0
    Path("claims.toml").write_text(CLAIMS)
    capsys.readouterr()
    assert policylag.main(["report", *runs, "--claims", "claims.toml", "--out", "page.html"]) == 0
    said = capsys.readouterr().out
    (claim,) = [line for line in said.splitlines() if line.startswith("C1 ")]
    assert "supported: With twice the slots, slots wait more." in claim
    assert "3 pairs of seeds" in claim
    page = Path("page.html").read_text()
    assert "<h1>Concurrency</h1>" in page
    assert f"policylag report {' '.join(runs)} --claims claims.toml" in page
    Path("claims.toml").write_text(CLAIMS.replace("engine_idle", "engine_idel"))
    assert policylag.main(["report", *runs, "--claims", "claims.toml", "--out", "other.html"]) == 2
    assert "did you mean engine_idle" in capsys.readouterr().err
    assert not Path("other.html").exists()


def test_help_loads_nothing_heavy() -> None:
    code = "import sys, policylag; policylag.main(['--help']); print(sorted(sys.modules))"
    loaded = subprocess.run(
        [sys.executable, "-c", code], cwd=ROOT, check=True, capture_output=True, text=True
    ).stdout.splitlines()[-1]
    for heavy in ("'torch'", "'pandas'", "'simpy'", "'pydantic'", "'matplotlib'"):
        assert heavy not in loaded


def test_a_terminal_without_utf8_gets_its_answer() -> None:
    ascii_only = {"LC_ALL": "C", "PYTHONIOENCODING": "ascii", "TERM": "dumb", "COLUMNS": "40"}
    assert "--policy-update-s" in printed(["simulate", "--help"], **ascii_only)


def test_a_reader_that_leaves_is_no_error() -> None:
    words = " ".join([sys.executable, "policylag.py", "simulate", *SMALL, "--quiet"])
    command = f"{words} | head -c 1; echo ${{PIPESTATUS[0]}}"
    done = subprocess.run(["bash", "-c", command], cwd=ROOT, capture_output=True, text=True, check=True)
    assert done.stdout.endswith("0\n")
    assert "Traceback" not in done.stderr


def test_closed_and_full_streams_end_without_a_traceback() -> None:
    words = " ".join([sys.executable, "policylag.py", "simulate", *SMALL])
    for redirect, status in (("2>&-", 0), (">/dev/full", 1)):
        command = ["bash", "-c", f"{words} {redirect}"]
        done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False)
        assert done.returncode == status, done.stderr
        assert "Traceback" not in done.stderr


def test_a_figure_of_a_factor_that_there_is_not_is_said_in_one_line_and_the_runs_are_kept(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    lines = [f"{flag[2:].replace('-', '_')}" for flag in SMALL]
    picture = '[[pictures]]\nkind = "score_by_factor"\nfactor = "colour"\nmetric = "mean_lag"'
    text = ["seeds = 1", "[every]", 'experiment = "sync"', *lines, "[arms.a]", "[arms.b]", "push_s = 1.0"]
    Path("mine.toml").write_text("\n".join([*text, picture]))
    assert "colour" in refused(["study", "mine.toml", "--jobs=1", "--quiet"], capsys)
    assert len(list(Path("runs/mine/cells").iterdir())) == 2
