"""Into which sort of file or folder, and which place in it, does each run go?"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Final, TypeAlias, final

from analysis.export.place import appearing
from analysis.export.rows import Row
from analysis.export.tensorboard import write_tensorboard
from analysis.export.text import write_csv, write_jsonl
from analysis.export.trackers import write_trackio, write_wandb
from analysis.export.words import Words
from analysis.runs import Run


@final
@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Exported:
    """One run, ready to be written."""

    name: str
    """What tells it from the others: its folder's name."""
    run: Run
    rows: Sequence[Row]
    words: Words


Write: TypeAlias = Callable[[Path, Exported, bool], None]
"""Writes one run to a place, or among others in a folder there."""


def _jsonl(root: Path, what: Exported, among_others: bool) -> None:
    path = root / f"{what.name}.jsonl" if among_others else root
    with open(path, "w", encoding="utf-8") as stream:
        write_jsonl(stream, what.rows, what.words)


def _csv(root: Path, what: Exported, among_others: bool) -> None:
    path = root / f"{what.name}.csv" if among_others else root
    with open(path, "w", encoding="utf-8", newline="") as stream:
        write_csv(stream, what.rows, what.words)


def _tensorboard(root: Path, what: Exported, among_others: bool) -> None:
    write_tensorboard(root / what.name if among_others else root, what.rows)


def _wandb(root: Path, what: Exported, _among_others: bool) -> None:
    write_wandb(root, what.name, what.run, what.rows)


def _trackio(root: Path, what: Exported, _among_others: bool) -> None:
    write_trackio(root, what.name, what.run, what.rows)


WRITERS: Final[Mapping[str, Write]] = {
    "jsonl": _jsonl,
    "csv": _csv,
    "tensorboard": _tensorboard,
    "wandb": _wandb,
    "trackio": _trackio,
}
NEEDS: Final[Mapping[str, str]] = {"tensorboard": "tensorboard", "wandb": "wandb", "trackio": "trackio"}
"""Sort -> the package that it needs; its extra is called as the sort is."""


def write_all(out: Path, sort: str, exports: Iterable[Exported], *, several: bool) -> None:
    """Every run, or nothing.

    Args:
        out: one file (or folder, where the sort is one) for one run, a folder of them for several.
        sort: of `WRITERS`.

    Raises:
        FileExistsError: something is there already.
        OSError: it cannot be written.
    """
    with appearing(out) as part:
        if several:
            part.mkdir()
        for one in exports:
            WRITERS[sort](part, one, several)
