"""What does a user ask of an export?

Annotations are evaluated eagerly here (no `__future__` import), because tyro makes the flags from them.
"""

import math
import sys
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Literal

import tyro

from analysis.export.extras import must_be_there
from analysis.export.place import must_be_new
from analysis.export.rows import rows
from analysis.export.text import write_csv, write_jsonl
from analysis.export.words import WORDS
from analysis.export.write import NEEDS, Exported, write_all
from analysis.runs import load_run, run_folders
from simulator.progress import progress

BadInput = Callable[[str], AbstractContextManager[None]]


@dataclass(frozen=True)
class Exporting:
    """Metrics of recorded runs, one row an update, in the words and files of other tools.

    What is not a number is left out. Lag stays in optimizer updates; a number that the other system has no
    name for keeps its own under policylag/. `policylag audit` reads JSON lines, CSV and TensorBoard back.
    """

    runs: tyro.conf.Positional[list[Path]]
    """Run folders, or folders of a study."""
    words: Annotated[Literal["policylag", "verl", "prime-rl", "skyrl"], tyro.conf.arg(name="as")] = (
        "policylag"
    )
    """Whose names, signs and layout."""
    to: Literal["jsonl", "csv", "tensorboard", "wandb", "trackio"] | None = None
    """By default csv if --out ends so, else jsonl. The last three are extras; nothing is sent anywhere."""
    out: Path | None = None
    """New file or folder; of several runs a folder. Without it one run's jsonl or csv goes to stdout."""
    updates_per_version: float = 1.0
    """Divides lags, for a system whose version holds several optimizer updates."""
    quiet: bool = False
    """No progress on stderr."""

    @property
    def sort(self) -> str:
        by_ending = "csv" if self.out is not None and self.out.suffix.lower() == ".csv" else "jsonl"
        return self.to or by_ending

    def folders(self) -> dict[str, Path]:
        """Run folders by a name that each has alone.

        Raises:
            ValueError: what was asked for cannot be.
            OSError: there is no run, or the place is taken.
        """
        if not self.runs:
            raise ValueError("needs a run folder")
        if not (self.updates_per_version > 0 and math.isfinite(self.updates_per_version)):
            raise ValueError(f"updates_per_version: must be above 0, got {self.updates_per_version:g}")
        if self.sort in NEEDS:
            must_be_there(NEEDS[self.sort], self.sort)
        if self.out is not None:
            must_be_new(self.out)
        found = [folder for given in self.runs for folder in run_folders(given)]
        if self.out is None and (len(found) > 1 or self.sort in NEEDS):
            many = f"{len(found)} runs" if len(found) > 1 else self.sort
            raise ValueError(f"out: {many} need a place, --out PATH")
        return dict(zip(_names(found), found, strict=True))


def answer(words: list[str], parse: Callable[..., Exporting], bad_input: BadInput) -> int:
    """Export; returns the exit status.

    Args:
        words: after the subcommand.
        parse: makes the record of the words, or says in one line why it cannot.
        bad_input: turns what is wrong with a run into one line.
    """
    asked = parse(Exporting, words, command="export")
    with bad_input("export: "):
        folders = asked.folders()
    made = _made(asked, folders, bad_input)
    if asked.out is None:
        one = next(made)
        (write_csv if asked.sort == "csv" else write_jsonl)(sys.stdout, one.rows, one.words)
        return 0
    write_all(asked.out, asked.sort, made, several=len(folders) > 1)
    print(asked.out)
    return 0


def _made(asked: Exporting, folders: dict[str, Path], bad_input: BadInput) -> Iterator[Exported]:
    """One run at a time: a study's tables need not fit in memory."""
    given = WORDS[asked.words]
    with progress(len(folders), "runs", silent=asked.quiet or len(folders) == 1) as advance:
        for name, folder in folders.items():
            with bad_input(f"export: {folder}: "):
                run = load_run(folder)
                found = rows(run, given, updates_per_version=asked.updates_per_version)
                if not found:
                    raise ValueError("has no update")
            yield Exported(name=name, run=run, rows=found, words=given)
            advance()


def _names(folders: list[Path]) -> list[str]:
    """The folders' names; what comes twice is numbered."""
    seen: Counter[str] = Counter()
    names = []
    for folder in folders:
        name = folder.resolve().name
        seen[name] += 1
        names.append(name if seen[name] == 1 else f"{name}-{seen[name]}")
    return names
