"""One cell of a grid: an arm, a seed, and a name that follows from all that decides its result."""

from __future__ import annotations

import hashlib
import json
import time
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import final

from simulator.lab.config import LearnConfig
from simulator.runfolder import source_digest, write_run
from simulator.world.lengths import Trace


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
        content = json.dumps(self.config.model_dump(mode="json"), sort_keys=True)
        digest = hashlib.sha256(f"{source_digest()}{content}".encode())
        lengths = self.config.pipeline.lengths
        if isinstance(lengths, Trace):
            digest.update(Path(lengths.path).read_bytes())
        return digest.hexdigest()[:12]

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
