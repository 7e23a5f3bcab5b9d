"""How do many cells run? In parallel, each once, whatever interrupts them.

joblib's processes do the work (or Ray's, see `on_ray`): no scheduler of our own. A finished cell is a folder
with a content address, so a second call runs what is missing and nothing else. A cell that fails is reported
and does not stop the others.
"""

from __future__ import annotations

import contextlib
import gc
import os
import shutil
import signal
import threading
import time
import traceback
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from types import FrameType
from typing import Final, final

import joblib

from simulator.studies.cells import Cell


@final
@dataclass(frozen=True, slots=True, kw_only=True)
class Outcome:
    """How one cell ended."""

    cell: Cell
    error: str | None = None
    """Traceback, if it failed."""


_STALE_S: Final = 600.0


def remove_leftovers(study: Path) -> None:
    """Remove what killed runs left half-written; what is younger than ten minutes may still be at work."""
    for leftover in (*study.glob(".*"), *(study / "cells").glob(".*")):
        with contextlib.suppress(OSError):  # another study in the same folder may have been faster
            if time.time() - leftover.stat().st_mtime < _STALE_S:
                continue
            if leftover.is_dir():
                shutil.rmtree(leftover, ignore_errors=True)
            elif leftover.name.startswith(".driver-") or leftover.suffix == ".part":
                leftover.unlink()


def missing(cells: Sequence[Cell], study: Path) -> list[Cell]:
    """Cells without a finished run, in the order given."""
    return [cell for cell in cells if not cell.is_done(study)]


def run_cells(
    cells: Sequence[Cell],
    study: Path,
    *,
    run: Callable[[Cell, Path], None],
    jobs: int,
    on_end: Callable[[Outcome], None],
) -> list[Outcome]:
    """Run every cell in its own process.

    Args:
        cells: what is to be run; see `missing`.
        study: the study's folder.
        run: runs one cell and writes its folder; importable by name, since it travels to a process.
        jobs: processes at once.
        on_end: called in this process as each cell ends, in whatever order they do.

    Raises:
        KeyboardInterrupt: handed on after the workers are stopped; finished cells stay.
    """
    parallel = joblib.Parallel(n_jobs=jobs, return_as="generator_unordered", batch_size=1)
    outcomes: list[Outcome] = []
    try:
        with remembered_interrupts() as interrupted:
            for outcome in parallel(
                joblib.delayed(_in_process)(run, cell, study, os.getpid()) for cell in cells
            ):
                outcomes.append(outcome)
                on_end(outcome)
                if interrupted():
                    raise KeyboardInterrupt
    except KeyboardInterrupt:
        _stop_workers()
        raise
    return outcomes


@contextlib.contextmanager
def remembered_interrupts() -> Iterator[Callable[[], bool]]:
    """Was there an interrupt? One that falls into a finaliser is swallowed by Python, and the run goes on."""
    asked = False

    def handle(number: int, frame: FrameType | None) -> None:  # noqa: ARG001
        nonlocal asked
        asked = True
        raise KeyboardInterrupt

    ignored = signal.getsignal(signal.SIGINT) is signal.SIG_IGN  # in the background, as a shell may start it
    if ignored or threading.current_thread() is not threading.main_thread():
        yield lambda: False
        return
    before = signal.signal(signal.SIGINT, handle)
    try:
        yield lambda: asked
    finally:
        signal.signal(signal.SIGINT, before)


def _in_process(run: Callable[[Cell, Path], None], cell: Cell, study: Path, parent: int) -> Outcome:
    if os.getpid() != parent:
        if os.getppid() != parent:
            os._exit(1)  # the study was killed: nobody waits for this cell
        # The terminal sends Ctrl-C to the whole process group; only the parent shall answer it.
        signal.signal(signal.SIGINT, signal.SIG_IGN)
    return guarded(run, cell, study)


def guarded(run: Callable[[Cell, Path], None], cell: Cell, study: Path) -> Outcome:
    """Run one cell; what goes wrong in it is its outcome."""
    try:
        run(cell, study)
    except Exception:
        if cell.is_done(study):  # a process of a killed study was faster: the same content
            return Outcome(cell=cell)
        return Outcome(cell=cell, error=traceback.format_exc())
    finally:
        # A run is a web of references: without this, finished ones pile up until the collector's next round.
        gc.collect()
    return Outcome(cell=cell)


def _stop_workers() -> None:
    from joblib.externals.loky import get_reusable_executor

    get_reusable_executor().shutdown(wait=False, kill_workers=True)
