"""One cell of a grid: an arm, a seed, and a name that follows from all that decides its result."""

from __future__ import annotations

import time
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import final

from simulator.lab.config import LearnConfig
from simulator.runfolder import content_digest, write_run


@final
@dataclass(frozen=True, kw_only=True)
class Cell:
    """One run: everything that decides its numbers is in `config`, seed included."""

    arm: str
    config: LearnConfig

    @property
    def seed(self) -> int:
        return self.config.pipeline.seed

    @cached_property
    def key(self) -> str:
        """Content address: equal configuration and equal code, equal key."""
        return content_digest(self.config)[:12]

    @property
    def name(self) -> str:
        return f"{self.arm}-seed{self.seed}-{self.key}"

    def folder(self, study: Path) -> Path:
        return study / "cells" / self.name

    def is_done(self, study: Path) -> bool:
        """A cell's folder appears whole, so its presence is enough."""
        return (self.folder(study) / "meta.json").is_file()


def run_cell(cell: Cell, study: Path) -> None:
    """Run one cell and write its folder."""
    from simulator.lab.run import learn  # torch is loaded where it works, not where cells are listed

    begin_s = time.perf_counter()
    log = learn(cell.config).log
    took_s = time.perf_counter() - begin_s
    write_run(cell.folder(study), log, cell.config, arm=cell.arm, took_s=took_s)
