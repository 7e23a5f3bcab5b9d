"""Can a folder be written to? Asked before any work, so that none is lost."""

from __future__ import annotations

import tempfile
from pathlib import Path

from simulator.command_line import BadInputError, bad_input


def must_be_writable(folder: Path, *, name: str) -> None:
    """Try to write there.

    Args:
        name: what is to be written, as the message begins.

    Raises:
        BadInputError: nothing can be.
    """
    try:
        tempfile.TemporaryFile(dir=folder).close()
    except OSError as refused:
        raise BadInputError(f"{name} cannot be written: {refused.strerror}") from None


def must_be_makeable(folder: Path, *, name: str) -> None:
    """The folder is there or can be made, and can be written to.

    Raises:
        BadInputError: it or a folder above it is a file, or cannot be written to.
    """
    there = next(path for path in (folder, *folder.absolute().parents) if path.exists())
    if not there.is_dir():
        raise BadInputError(f"{name}: {folder} can be no folder: {there} is a file")
    must_be_writable(there, name=f"{name}: {folder}")


def must_be_free(folder: Path | None) -> None:
    """Refuse, before any work, a folder that a run could not be written to.

    Raises:
        BadInputError: it exists and holds something, it is a file, or nothing can be written beside it.
    """
    if folder is None:
        return
    with bad_input("out: "):
        if folder.exists() and (not folder.is_dir() or any(folder.iterdir())):
            raise BadInputError(f"out: {folder} is not an empty folder: a run is never written over another")
        folder.parent.mkdir(parents=True, exist_ok=True)
        must_be_writable(folder.parent, name=f"out: {folder}")
