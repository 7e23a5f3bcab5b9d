"""How does another host take part in a trainer? `python -m full_runs.trainer.join --folder DIR --node 1`.

The folder is the run's `trainer`, on a file system that all hosts share. The command may come before the
controller or after it. It starts this node's ranks whenever the controller starts its own, again after a
failure too, and ends when the controller's run has ended.
"""

from __future__ import annotations

import argparse
import contextlib
import os
import signal
import subprocess
import sys
import time
from pathlib import Path
from typing import Final

from pydantic import ValidationError

from full_runs.trainer.config import TrainerConfig
from full_runs.trainer.launch import ASSEMBLY, OVER, Assembly, environment, torchrun
from full_runs.trainer.worker import CONFIG

POLL_S: Final = 0.5
TO_END_S: Final = 20.0
"""Ranks that are asked to end are ended after so long."""


class NobodyCameError(Exception):
    """No controller asked for this node."""


def join(folder: Path, node: int, *, patience_s: float) -> None:
    """Start this node's ranks as often as they are wanted.

    Args:
        folder: of the trainer; it may come later.
        node: 1 for the first that is not the controller's.
        patience_s: wait so long for a controller, at first and between two starts.

    Raises:
        NobodyCameError: nobody wanted it for so long.
        ValueError: the trainer has no such node.
    """
    old, done = _text(folder / OVER), ""
    since_s = time.monotonic()
    while (over := _text(folder / OVER)) is None or over == old:
        assembly = _assembly(folder)
        if assembly is None or assembly.id == done:
            if time.monotonic() - since_s > patience_s:
                raise NobodyCameError(f"no controller started a trainer in {folder} for {patience_s:.0f} s")
            time.sleep(POLL_S)
            continue
        if not 0 < node < assembly.nodes:
            raise ValueError(
                f"node is {node}, and the trainer in {folder} has nodes 1 to {assembly.nodes - 1}"
            )
        print(f"node {node}: {assembly.ranks_a_node} ranks meet at {assembly.rendezvous}", file=sys.stderr)
        status = _ranks(folder, assembly, node)
        print(f"node {node}: ranks ended with status {status}", file=sys.stderr)
        done, since_s = assembly.id, time.monotonic()


def _ranks(folder: Path, assembly: Assembly, node: int) -> int:
    """Run them until they end, or nobody wants them any more."""
    config = TrainerConfig.model_validate_json((folder / CONFIG).read_text())
    tether = [sys.executable, "-m", "full_runs.engine.tether", str(os.getpid())]
    process = subprocess.Popen(
        [*tether, *torchrun(assembly, node, folder)],
        stdin=subprocess.DEVNULL,
        env=environment(assembly, config, os.environ),
        start_new_session=True,  # so that all ranks can be ended
    )
    try:
        while process.poll() is None and _is_wanted(folder, assembly):
            time.sleep(POLL_S)
    finally:
        _end(process)
    return process.returncode


def _is_wanted(folder: Path, assembly: Assembly) -> bool:
    now = _assembly(folder)
    return now is None or now.id == assembly.id  # it may be written just now


def _end(process: subprocess.Popen[bytes]) -> None:
    if process.poll() is None:
        process.terminate()
        with contextlib.suppress(subprocess.TimeoutExpired):
            process.wait(TO_END_S)
    with contextlib.suppress(ProcessLookupError):
        os.killpg(process.pid, signal.SIGKILL)
    process.wait()


def _text(file: Path) -> str | None:
    with contextlib.suppress(OSError):
        return file.read_text()
    return None


def _assembly(folder: Path) -> Assembly | None:
    with contextlib.suppress(ValidationError):
        return Assembly.model_validate_json(_text(folder / ASSEMBLY) or "")
    return None


def main() -> int:
    parser = argparse.ArgumentParser(
        prog="full_runs.trainer.join", description=(__doc__ or "").split("\n")[0]
    )
    parser.add_argument("--folder", type=Path, required=True, help="the run's folder `trainer`, shared")
    parser.add_argument("--node", type=int, required=True, help="1, 2, ...; node 0 is the controller's")
    parser.add_argument("--patience-s", type=float, default=3600.0, help="wait so long for a controller")
    told = parser.parse_args()
    # A launcher that ends its job asks with this signal; the ranks end too.
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(128 + signal.SIGTERM))
    try:
        join(told.folder, told.node, patience_s=told.patience_s)
    except NobodyCameError as alone:
        print(f"join: {alone}", file=sys.stderr)
        return 1
    except ValueError as wrong:
        print(f"join: {' '.join(str(wrong).split())}", file=sys.stderr)
        return 2
    except KeyboardInterrupt:
        return 130
    return 0


if __name__ == "__main__":
    sys.exit(main())
