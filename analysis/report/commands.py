"""Which commands make these runs, this page and its files again?"""

from __future__ import annotations

import shlex
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, Final

from analysis.runs import called, is_run, read_json

MOST_RUNS: Final = 6
"""Runs side by side whose commands are listed; of more it says how many."""


def commands(folders: Sequence[Path], claims: Path | None = None) -> dict[str, str]:
    """By what it makes: the runs (as far as their folders say), the page, its figures with their data.

    Args:
        claims: the file that they were judged by, if not their own.
    """
    given = shlex.join([*map(str, folders), *(["--claims", str(claims)] if claims else [])])
    known = {f"run {called(folder)}": _again(folder) for folder in folders if is_run(folder)}
    again = {name: command for name, command in known.items() if command}
    listed = dict(list(again.items())[:MOST_RUNS])
    if len(again) > len(listed):
        listed["more runs"] = f"{len(again) - len(listed)} more, each from the config.json in its folder"
    return {
        **listed,
        "this page": f"policylag report {given}",
        "figures and data as files": f"policylag report {given} --figures figures",
    }


def _again(folder: Path) -> str:
    """The command that makes a run from its own configuration; empty if its folder does not tell."""
    config = folder / "config.json"
    if "command" in (meta := read_json(folder / "meta.json")) or not config.is_file():
        return ""
    return shlex.join(["policylag", _subcommand(meta, read_json(config)), "--config", str(config)])


def _subcommand(meta: Mapping[str, Any], config: Mapping[str, Any]) -> str:
    if meta.get("clock") == "wall":
        return "full"
    return "learn" if "pipeline" in config else "simulate"
