"""One cell of a grid: an arm, a seed, and a name that follows from all that decides its result."""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, TypeAlias, final

from simulator.config import PipelineConfig
from simulator.lab.config import LearnConfig
from simulator.runfolder import content_digest, write_run

if TYPE_CHECKING:
    from simulator.eventlog import EventLog

RunConfig: TypeAlias = LearnConfig | PipelineConfig
"""Of a run in which something learns, or of one that only keeps time."""


@final
@dataclass(frozen=True, kw_only=True)
class Cell:
    """One run: everything that decides its numbers is in `config`, seed included."""

    arm: str
    config: RunConfig

    @property
    def seed(self) -> int:
        return schedule(self.config).seed

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


def schedule(config: RunConfig) -> PipelineConfig:
    """The pipeline that a run has."""
    return config if isinstance(config, PipelineConfig) else config.pipeline


def run_config(config: RunConfig, *, progress: Callable[[int], None] = lambda _: None) -> EventLog:
    """What happens in it.

    Args:
        progress: told the number of updates that are done, after each.
    """
    # Loaded where they work, not where cells are listed.
    if isinstance(config, PipelineConfig):
        from simulator.pipeline.pipeline import run

        return run(config, progress=progress).log
    from simulator.lab.run import learn

    return learn(config, progress=progress).log


def run_cell(cell: Cell, study: Path) -> None:
    """Run one cell and write its folder."""
    begin_s = time.perf_counter()
    log = run_config(cell.config)
    took_s = time.perf_counter() - begin_s
    write_run(cell.folder(study), log, cell.config, arm=cell.arm, took_s=took_s)
