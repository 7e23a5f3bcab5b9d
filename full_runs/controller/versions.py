"""Where does lie what belongs to one version of the weights, and what is left of older ones?"""

from __future__ import annotations

import shutil
from collections.abc import Collection
from pathlib import Path


def of_version(folder: Path, version: int) -> Path:
    """Its folder; names sort as versions do."""
    return folder / f"version-{version:08d}"


def versions(folder: Path) -> list[Path]:
    """All that are there, in order."""
    return sorted(folder.glob("version-*"))


def keep_only(folder: Path, kept: Collection[Path]) -> None:
    """Remove all others."""
    for each in versions(folder):
        if each not in kept:
            shutil.rmtree(each)
