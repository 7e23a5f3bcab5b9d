"""What the README promises runs."""

import re
import shlex
from pathlib import Path

import pytest

import policylag

README = (Path(__file__).resolve().parents[1] / "README.md").read_text(encoding="utf-8")


def test_ten_lines_of_python(capsys: pytest.CaptureFixture[str]) -> None:
    (code,) = re.findall(r"```python\n(.*?)```", README, re.DOTALL)
    assert len([line for line in code.splitlines() if line.strip()]) <= 10
    exec(compile(code, "README.md", "exec"), {})
    assert "clipped_fraction" in capsys.readouterr().out


@pytest.mark.parametrize(
    "line", re.findall(r"^policylag (simulate [^#\n]*?)(?:\s+#.*)?$", README, re.MULTILINE)
)
def test_simulate_commands(line: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert policylag.main([*shlex.split(line), "--updates=16", "--quiet"]) == 0
    assert "mean_lag" in capsys.readouterr().out


def test_learn_and_report_commands(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """In the order they are written; each needs what the ones before it left."""
    monkeypatch.chdir(tmp_path)
    lines = re.findall(r"^policylag ((?:learn|report) [^#\n]*?)(?:\s+#.*)?$", README, re.MULTILINE)
    assert len(lines) == 4
    for line in lines:
        words = shlex.split(line)
        short = ["--pipeline.updates=8", "--quiet"] if words[0] == "learn" else []
        assert policylag.main([*words, *short]) == 0
    assert (tmp_path / "runs" / "one" / "report.html").is_file()


def test_links_lead_somewhere() -> None:
    root = Path(__file__).resolve().parents[1]
    targets = re.findall(r"\]\((?!https?:)([^)]+)\)", README)
    assert targets
    assert not [target for target in targets if not (root / target).exists()]
