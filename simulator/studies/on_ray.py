"""The same cells as Ray's tasks: on one machine, or on a cluster that is already there.

RAY_ADDRESS names the cluster; without it Ray starts on this machine, for as long as the study runs. Ray
decides what runs where. A cell takes one processor.

What a cluster must have: this code on every node (a worker whose sources differ refuses its cell). What it
should have: the study's folder under the same path on every node, as on a shared file system, for a cell is
written where it runs. It is checked, not trusted: the driver leaves a file of random name in the folder, and
a worker that does not find it runs in a temporary folder and sends the files back through Ray.
"""

from __future__ import annotations

import contextlib
import itertools
import os
import platform
import secrets
import socket
import tempfile
import time
import traceback
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, Final

from simulator.runfolder import source_digest
from simulator.studies.cells import Cell
from simulator.studies.runner import Outcome, guarded, remembered_interrupts

_OBJECTS_BYTES: Final = 128 * 2**20
"""Ray's store on one machine; what passes through it is the files of a cell, if anything."""
_CACHES_S: Final = 60.0
"""How long a network file system may go on saying that a new folder is not there."""


class NoClusterError(Exception):
    """RAY_ADDRESS leads nowhere."""


def run_cells(
    cells: Sequence[Cell],
    study: Path,
    *,
    run: Callable[[Cell, Path], None],
    jobs: int | None,
    on_end: Callable[[Outcome], None],
) -> list[Outcome]:
    """Run every cell as a task of Ray's; as `runner.run_cells` otherwise.

    Args:
        cells, study, run, on_end: as there.
        jobs: cells at once, at most; None for as many as Ray has processors.

    Raises:
        NoClusterError: there is no cluster at RAY_ADDRESS.
        KeyboardInterrupt: handed on; the tasks end with the connection, finished cells stay.
    """
    import ray

    outcomes: list[Outcome] = []
    running: dict[Any, Cell] = {}
    waiting = iter(cells)
    study = study.resolve()
    with _connected(jobs), _beacon(study) as beacon, remembered_interrupts() as interrupted:
        work = ray.remote(num_cpus=1)(at_work)
        given = (run, study, beacon, source_digest())
        try:
            while True:
                free = None if jobs is None else jobs - len(running)
                running |= {work.remote(cell, *given): cell for cell in itertools.islice(waiting, free)}
                if not running:
                    return outcomes
                (ended, *_), _ = ray.wait(list(running), num_returns=1)
                outcomes.append(_outcome(ray.get, ended, running.pop(ended), study))
                on_end(outcomes[-1])
                if interrupted():
                    raise KeyboardInterrupt
        except BaseException:
            # The tasks end with the connection. Not cancelled one by one: Ray 2.60 aborts the whole process
            # if a task completes while it is cancelled by force.
            if interrupted():  # inside Ray, an interrupt may come out as an error of another name
                raise KeyboardInterrupt from None
            raise


def at_work(
    cell: Cell, run: Callable[[Cell, Path], None], study: Path, beacon: str, sources: str
) -> tuple[str | None, dict[str, bytes]]:
    """On a worker: run one cell.

    Returns:
        The traceback if it failed, and the cell's files if the driver cannot see them.
    """
    if source_digest() != sources:
        return f"{platform.node()} has other sources of PolicyLag ({source_digest()}, not {sources})", {}
    if (study / beacon).is_file():
        return guarded(run, cell, study).error, {}
    with tempfile.TemporaryDirectory() as own:
        error = guarded(run, cell, Path(own)).error
        files = [] if error else list(cell.folder(Path(own)).iterdir())
        return error, {file.name: file.read_bytes() for file in files}


def keep(files: Mapping[str, bytes], folder: Path) -> None:
    """Write a cell's folder, whole or not at all; one that is there already stays as it is."""
    folder.parent.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(prefix=f".{folder.name}-", dir=folder.parent) as beside:
        whole = Path(beside) / "whole"
        whole.mkdir()
        for name, content in files.items():
            (whole / name).write_bytes(content)
        try:
            whole.rename(folder)
        except OSError:  # it is there, which systems say in two ways; or it cannot be
            if not (folder / "meta.json").is_file():
                raise


def _outcome(get: Callable[[Any], Any], task: Any, cell: Cell, study: Path) -> Outcome:
    try:
        error, files = get(task)
        if files:
            keep(files, cell.folder(study))
        elif not error and not _appears(cell, study):
            error = f"a worker wrote {cell.folder(study)}, and it is not to be seen here"
    except Exception:  # a worker that died, a disk that is full
        error = traceback.format_exc()
    return Outcome(cell=cell, error=error)


def _appears(cell: Cell, study: Path) -> bool:
    """Whether the folder is there, before long."""
    until_s = time.monotonic() + _CACHES_S
    while not cell.is_done(study):
        if time.monotonic() > until_s:
            return False
        time.sleep(0.5)
    return True


@contextlib.contextmanager
def _beacon(study: Path) -> Iterator[str]:
    """The name of a file in the study's folder that no other folder has."""
    study.mkdir(parents=True, exist_ok=True)
    path = study / f".driver-{secrets.token_hex(8)}"
    path.touch()
    try:
        yield path.name
    finally:
        path.unlink(missing_ok=True)


@contextlib.contextmanager
def _connected(jobs: int | None) -> Iterator[None]:
    """Ray, and its end, which ends its tasks; a connection that the caller has is used and left as it is."""
    import ray

    if ray.is_initialized():
        yield
        return
    address = os.environ.get("RAY_ADDRESS")
    if address:
        try:
            _knock(address)
            ray.init(log_to_driver=False, logging_level="ERROR")
        except (OSError, RuntimeError, ValueError) as refused:
            why = " ".join(str(refused).split())
            raise NoClusterError(f"RAY_ADDRESS is {address}: {why}") from refused
    else:
        os.environ.setdefault("RAY_USAGE_STATS_ENABLED", "0")  # nothing leaves this machine
        ray.init(
            address="local",
            num_cpus=jobs or os.cpu_count(),
            include_dashboard=False,
            object_store_memory=_OBJECTS_BYTES,
            log_to_driver=False,
            logging_level="ERROR",
        )
    try:
        yield
    finally:
        ray.shutdown()


def _knock(address: str) -> None:
    """Ray itself tries for minutes before it says that nobody answers."""
    host, _, port = address.rpartition("/")[2].rpartition(":")
    if port.isdigit():
        socket.create_connection((host.strip("[]"), int(port)), timeout=10).close()
