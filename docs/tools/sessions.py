"""Is what a page shows what the commands say? The commands of a page, run again in order, in an empty folder.

A block of kind `console` is a session: lines that begin with `$ ` are commands, the others what they say. A
block with a title is a file, written before the commands after it. All blocks of a page share one folder.

`python -m docs.tools.sessions [PAGE...]` writes what the commands say now into the pages.
"""

from __future__ import annotations

import contextlib
import io
import os
import re
import shlex
import subprocess
import sys
import tempfile
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Final

DOCS: Final = Path(__file__).resolve().parents[1]
_BLOCK: Final = re.compile(
    r"^```(?P<kind>\w+)(?: title=\"(?P<title>[^\"]+)\")?\n(?P<body>.*?)^```$", re.DOTALL | re.MULTILINE
)
_NUMBER: Final = re.compile(r"[-+]?\d[\d,]*\.?\d*(?:e[-+]?\d+)?")
_DIGEST: Final = re.compile(r"\b[0-9a-f]{64}\b")
_ENVIRONMENT: Final = {"COLUMNS": "88", "NO_COLOR": "1", "TERM": "dumb"}


def pages() -> list[Path]:
    """Those that have a session."""
    return [page for page in sorted(DOCS.rglob("*.md")) if "```console" in page.read_text(encoding="utf-8")]


def run_again(page: str, folder: Path) -> str:
    """The page as its commands would have it now."""

    def block(found: re.Match[str]) -> str:
        if found["title"]:
            path = folder / found["title"]
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(found["body"], encoding="utf-8")
        if found["kind"] != "console":
            return found[0]
        return f"```console\n{''.join(_said(found['body'], folder))}```"

    with contextlib.chdir(folder), _environment(_ENVIRONMENT):
        return _BLOCK.sub(block, page)


def sessions(page: str) -> list[str]:
    """The bodies of its sessions."""
    return [found["body"] for found in _BLOCK.finditer(page) if found["kind"] == "console"]


def alike(shown: str, said: str) -> bool:
    """The same words, and numbers within a twentieth or .02: processors round differently, and learning
    amplifies it."""
    if _NUMBER.sub("#", _spaced(shown)) != _NUMBER.sub("#", _spaced(said)):
        return False
    pairs = zip(_numbers(shown), _numbers(said), strict=True)
    return all(abs(a - b) <= max(0.02, 0.05 * abs(a)) for a, b in pairs)


def _said(body: str, folder: Path) -> Iterator[str]:
    for command in re.findall(r"^\$ (.*(?:\\\n.*)*)$", body, re.MULTILINE):
        yield f"$ {command}\n"
        said = _answer(command.replace("\\\n", " "), folder)
        yield "\n".join(line.rstrip() for line in said.splitlines()) + "\n" * bool(said.strip())


def _answer(command: str, folder: Path) -> str:
    """What one command prints. Ours run in this process, since imports are slow; what follows a bar, in a
    shell."""
    command, asks_status, _ = command.partition("; echo $?")
    own, _, after = command.partition(" | ")
    own, _, file = own.partition(" > ")
    if own.split(maxsplit=1)[0] == "policylag":
        said, status = _own(own)
    else:
        done = _shell(command, folder)
        said, status, after, file = done.stdout, done.returncode, "", ""
        if status and not asks_status:
            raise RuntimeError(f"{command} failed: {done.stderr}")
    if file:
        (folder / file).write_text(said, encoding="utf-8")
        said = ""
    if after:
        said = _shell(after, folder, said).stdout
    return f"{said}{status}\n" if asks_status else said


def _own(command: str) -> tuple[str, int]:
    """As a process would: what is printed, and the exit status."""
    import policylag

    command, asks_both, _ = command.partition(" 2>&1")

    out, err = io.StringIO(), io.StringIO()
    with contextlib.redirect_stdout(out), contextlib.redirect_stderr(err):
        try:
            status = policylag.main(shlex.split(command)[1:])
        except SystemExit as stop:  # --help
            status = int(stop.code or 0)
    # Progress is not shown; what was wrong is.
    return out.getvalue() + (err.getvalue() if asks_both or status == 2 else ""), status


def _shell(command: str, folder: Path, said: str = "") -> subprocess.CompletedProcess[str]:
    beside = os.pathsep.join([str(Path(sys.executable).parent), os.environ.get("PATH", "")])
    return subprocess.run(
        ["bash", "-o", "pipefail", "-c", command],
        cwd=folder,
        input=said,
        capture_output=True,
        text=True,
        check=False,
        env={**os.environ, "PATH": beside},
    )


@contextlib.contextmanager
def _environment(changes: Mapping[str, str]) -> Iterator[None]:
    before = dict(os.environ)
    os.environ.update(changes)
    try:
        yield
    finally:
        os.environ.clear()
        os.environ.update(before)


def _spaced(text: str) -> str:
    """Widths of columns may follow numbers, and a digest is no number."""
    return " ".join(_DIGEST.sub("digest", re.sub(r"[─━-]{3,}", "---", text)).split())


def _numbers(text: str) -> list[float]:
    return [float(number.replace(",", "")) for number in _NUMBER.findall(_spaced(text))]


def main(names: list[str]) -> None:
    """Write what the commands say now into the pages named, or all."""
    for page in [Path(name) for name in names] or pages():
        with tempfile.TemporaryDirectory() as folder:
            print(page, file=sys.stderr)
            page.write_text(run_again(page.read_text(encoding="utf-8"), Path(folder)), encoding="utf-8")


if __name__ == "__main__":
    main(sys.argv[1:])
