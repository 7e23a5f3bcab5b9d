"""A study that is not the quick one, where the world is against it."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[3]
LAW = ["study", "law", "--learning-rates", "1e-3", "2e-3", "--lags", "2", "4", "--updates=30", "--quiet"]
"""Four runs a seed, each a fraction of a second."""


def command(out: Path, *words: str) -> list[str]:
    return [sys.executable, "policylag.py", *LAW, f"--out={out}", "--jobs=1", *words]


def started(out: Path, *words: str) -> subprocess.Popen[str]:
    return subprocess.Popen(
        command(out, *words),
        cwd=ROOT,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        start_new_session=True,
    )


def digests(out: Path) -> dict[str, str]:
    return {
        meta.parent.name: json.loads(meta.read_text())["digest"] for meta in out.glob("cells/[!.]*/meta.json")
    }


def test_two_processes_in_one_folder_at_once_and_a_third_alone_come_to_the_same(tmp_path: Path) -> None:
    both = [started(tmp_path / "both", "--seeds=1") for _ in range(2)]
    ended = [process.communicate() for process in both]
    assert [process.returncode for process in both] == [0, 0], ended
    assert all("Traceback" not in said for _, said in ended)
    subprocess.run(command(tmp_path / "alone", "--seeds=1"), cwd=ROOT, check=True, capture_output=True)
    assert len(digests(tmp_path / "alone")) == 4
    assert digests(tmp_path / "both") == digests(tmp_path / "alone")
    left = [path.name for path in (tmp_path / "both").rglob(".*")]
    assert left == []


def test_a_reader_that_went_away_costs_no_run(tmp_path: Path) -> None:
    """As of `| head -0`: the terminal's table is lost, the study is not."""
    process = started(tmp_path / "study", "--seeds=1")
    assert process.stdout is not None
    process.stdout.close()
    assert process.stderr is not None
    said = process.stderr.read()
    process.stderr.close()
    process.wait()
    assert "Traceback" not in said
    assert len(digests(tmp_path / "study")) == 4
    assert (tmp_path / "study" / "report.html").is_file()


def test_killed_in_the_middle_it_ends_with_equal_results(tmp_path: Path) -> None:
    killed = started(tmp_path / "killed", "--seeds=2")
    while not digests(tmp_path / "killed") and killed.poll() is None:
        time.sleep(0.01)
    os.killpg(killed.pid, signal.SIGKILL)
    killed.communicate()
    kept = digests(tmp_path / "killed")
    assert 0 < len(kept) < 8
    for name in ("killed", "whole"):
        subprocess.run(command(tmp_path / name, "--seeds=2"), cwd=ROOT, check=True, capture_output=True)
    assert digests(tmp_path / "killed") == digests(tmp_path / "whole")
    assert kept.items() <= digests(tmp_path / "killed").items()


@pytest.mark.skipif(not Path("/proc/self").is_dir(), reason="needs a folder that not even root can write to")
def test_a_folder_that_cannot_be_written_to_is_refused_before_any_run() -> None:
    done = subprocess.run(
        command(Path("/proc/self/study"), "--seeds=1"), cwd=ROOT, check=False, capture_output=True, text=True
    )
    assert done.returncode == 2
    assert done.stdout == ""
    assert done.stderr.startswith("policylag out: /proc/self/study cannot be written")
    assert done.stderr.count("\n") == 1
