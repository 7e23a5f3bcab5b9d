"""What is written appears whole or not at all, and never over something else."""

from __future__ import annotations

import contextlib
import os
import shutil
from collections.abc import Iterator
from pathlib import Path


def must_be_new(path: Path) -> None:
    """Refuse a place that is taken.

    Raises:
        FileExistsError: there is something, an empty folder too.
    """
    if path.exists() or path.is_symlink():
        raise FileExistsError(f"{path} is there already: an export is never written over another")


@contextlib.contextmanager
def appearing(path: Path) -> Iterator[Path]:
    """A place beside the path to write to, file or folder; it becomes the path at the end, unless that fails.

    Raises:
        FileExistsError: the path is taken, before or by now.
    """
    must_be_new(path)
    path.parent.mkdir(parents=True, exist_ok=True)
    part = path.with_name(f".{path.name}.{os.getpid()}.part")
    try:
        yield part
        must_be_new(path)
        part.rename(path)
    finally:
        if part.is_dir():
            shutil.rmtree(part, ignore_errors=True)
        else:
            part.unlink(missing_ok=True)
