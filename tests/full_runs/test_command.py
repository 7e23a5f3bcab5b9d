"""`policylag full` as a user meets it where nothing is installed, and what its settings refuse."""

import importlib.util
import subprocess
import sys
from pathlib import Path

import pytest

import policylag
from full_runs.configs.ready import READY
from full_runs.configs.record import FullConfig
from simulator.config.staleness import BoundedLag, OneStepOff, Sync


def refused(words: list[str], capsys: pytest.CaptureFixture[str]) -> str:
    assert policylag.main(["full", *words]) == 2
    said = capsys.readouterr()
    assert said.out == ""
    assert said.err.count("\n") == 1
    return said.err


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (["tiny"], ["no experiment 'tiny'", "tiny-cpu"]),
        (["tiny-cpu", "--group-size", "8"], ["group_size is 8", "one rollout a prompt"]),
        (["tiny-cpu-groups", "--group-size", "1"], ["group_size is 1"]),
        (["tiny-cpu", "--rollouts-per-update", "0"], ["rollouts_per_update", "0"]),
        (["tiny-cpu", "--engines", "3"], ["in_flight (64)", "engines (3)"]),
        (["tiny-cpu", "--heads", "3"], ["width (64)", "heads (3)"]),
        (["tiny-cpu", "--trainer-cores", "0-2"], ["trainer_cores (0-2)", "ranks is 2"]),
        (["tiny-cpu", "--engine-cores", "1-"], ["engine_cores", "'1-'"]),
        (["tiny-cpu", "--engine-cores", "60000"], ["engine_cores is 60000"]),
        (["tiny-cpu", "--temperature", "0"], ["temperature", "0"]),
        (["tiny-cpu", "--lengths-csv", "x.csv"], ["lengths_csv"]),
        (["tiny-cpu", "--estimator", "sao_running_mean", "--critic-only-updates", "5"], ["no critic"]),
    ],
)
def test_bad_input_is_one_line(
    words: list[str],
    said: list[str],
    capsys: pytest.CaptureFixture[str],
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.chdir(tmp_path)
    line = refused(words, capsys)
    assert all(part in line for part in said), line
    assert not list(tmp_path.iterdir())


@pytest.mark.skipif(importlib.util.find_spec("vllm") is not None, reason="vLLM is installed here")
def test_without_vllm_it_says_what_to_do(
    capsys: pytest.CaptureFixture[str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    assert "make full" in refused(["tiny-cpu"], capsys)
    assert not list(tmp_path.iterdir())


@pytest.mark.parametrize("name", sorted(READY))
def test_ready_settings_are_possible(name: str) -> None:
    config = READY[name]()
    assert config.pipeline().batch_rollouts == config.rollouts_per_update


@pytest.mark.parametrize("rule", [Sync(), OneStepOff(), BoundedLag(eta_batches=2)])
def test_the_simulators_rules_are_taken_as_they_are(rule: object) -> None:
    config = FullConfig.model_validate({"staleness": rule})
    assert config.rule().admission is not None


@pytest.mark.parametrize(
    ("rule", "why"),
    [
        ({"kind": "laminar"}, "when idle"),
        ({"kind": "no_such_rule"}, "no_such_rule"),
    ],
)
def test_a_rule_that_is_not_carried_out_is_refused_by_what_it_asks(rule: dict[str, str], why: str) -> None:
    with pytest.raises(ValueError, match=why):
        FullConfig.model_validate({"staleness": rule})


def test_sigterm_ends_a_run_in_the_background_too_and_lets_it_finish() -> None:
    """There SIGINT is ignored, so it is not by way of SIGINT."""
    code = (
        "import asyncio, os, signal; from full_runs.command import _ends_when_asked\n"
        "signal.signal(signal.SIGINT, signal.SIG_IGN)\n"
        "async def run():\n"
        "    try:\n"
        "        os.kill(os.getpid(), signal.SIGTERM); await asyncio.sleep(60)\n"
        "    finally:\n"
        "        await asyncio.sleep(0.01); print('its log is written')\n"
        "try: asyncio.run(_ends_when_asked(run()))\n"
        "except asyncio.CancelledError: print('ended')\n"
    )
    root = Path(__file__).parents[2]
    said = subprocess.run([sys.executable, "-c", code], cwd=root, capture_output=True, text=True, check=True)
    assert said.stdout.splitlines() == ["its log is written", "ended"]
