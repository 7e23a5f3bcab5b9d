"""A process that is killed for good, and the same command again: the log of a run that was not killed."""

import json
import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

import policylag
from simulator.lab.checkpoint import FILE

ROOT = Path(__file__).resolve().parents[3]
RUN = [
    "sao",
    "--pipeline.slots=32",
    "--pipeline.rollouts-per-update=16",
    "--pipeline.updates-per-batch=2",
    "--pipeline.updates=200",
    "--pipeline.policy-update-s=0.1",
]


def digest(words: list[str], capsys: pytest.CaptureFixture[str]) -> str:
    capsys.readouterr()
    assert policylag.main(["learn", *words, "--json"]) == 0
    return str(json.loads(capsys.readouterr().out)["digest"])


def kept_at(kept: Path) -> int | None:
    return (kept / FILE).stat().st_mtime_ns if (kept / FILE).exists() else None


def killed(words: list[str], kept: Path, how: signal.Signals) -> tuple[int, str]:
    """Exit status and stderr of a process that got a signal once it had kept a checkpoint of its own."""
    before = kept_at(kept)
    command = [sys.executable, "policylag.py", "learn", *words, "--quiet"]
    # A shell's background job ignores SIGINT and hands that on.
    process = subprocess.Popen(
        command,
        cwd=ROOT,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.PIPE,
        text=True,
        preexec_fn=lambda: signal.signal(signal.SIGINT, signal.default_int_handler),
        env=os.environ | {"PYTHONPATH": str(ROOT)},
    )
    while kept_at(kept) == before and process.poll() is None:
        time.sleep(0.002)
    process.send_signal(how)
    return process.wait(), process.communicate()[1]


def test_a_killed_run_goes_on_where_it_was(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    whole = digest(RUN, capsys)
    kept = tmp_path / "kept"
    words = [*RUN, f"--checkpoint={kept}", "--checkpoint-every=10"]
    assert killed(words, kept, signal.SIGKILL)[0] == -signal.SIGKILL
    status, said = killed(words, kept, signal.SIGINT)
    assert status == 130
    assert "the same command goes on from there" in said
    assert "Traceback" not in said
    # Another run is refused, and what is kept stays.
    other = [*words, "--pipeline.seed=1"]
    assert policylag.main(["learn", *other, "--quiet"]) == 2
    assert "belongs to another configuration" in capsys.readouterr().err
    assert digest(words, capsys) == whole
    assert not (kept / FILE).exists()
