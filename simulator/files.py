"""Files that appear whole, or not at all: who reads one while it is written sees it as it was before."""

from __future__ import annotations

import json
import os
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any


def write_json(path: Path, content: Mapping[str, Any], *, in_order: bool = False) -> None:
    """Readable JSON, replaced in one step; names are sorted unless their order says something."""
    write_text(path, json.dumps(content, indent=2, sort_keys=not in_order, allow_nan=False) + "\n")


def write_text(path: Path, text: str) -> None:
    """A file that is there whole or as it was before."""
    _write(path, text.encode())


def write_files(folder: Path, files: Iterable[tuple[str, str | bytes]]) -> None:
    """Each as `write_text` does, in a folder that is made if it is not there."""
    folder.mkdir(parents=True, exist_ok=True)
    for name, content in files:
        _write(folder / name, content if isinstance(content, bytes) else content.encode())


def _write(path: Path, content: bytes) -> None:
    part = path.with_name(f".{path.name}.{os.getpid()}.part")
    try:
        part.write_bytes(content)
        part.replace(path)
    finally:
        part.unlink(missing_ok=True)
