"""With which words and which environment do a trainer's ranks start, on each of its nodes?

torchrun starts them. On one node it finds a port by itself; over several, node 0 is the controller's, the
others meet it at an endpoint, and rank 0 is always on node 0, since requests come there.

What is said for GPUs has not been executed on one so far.
"""

from __future__ import annotations

import os
import socket
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Final, final

from pydantic import BaseModel, ConfigDict

from full_runs import pinned
from full_runs.configs.hosts import is_loopback
from full_runs.configs.placement import visible
from full_runs.trainer.config import TrainerConfig
from full_runs.trainer.message import put

ASSEMBLY: Final = "assembly.json"
OVER: Final = "over"
MEET_S: Final = 1800
"""Nodes wait for one another at most so long."""


@final
class Assembly(BaseModel):
    """Who starts together; other nodes read it in the trainer's folder."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    id: str
    """Of this start: after a failure there is another."""
    nodes: int = 1
    ranks_a_node: int
    rendezvous: str | None = None
    """`HOST:PORT` of node 0; None on one node."""
    gpus: tuple[int, ...] = ()
    """Numbers of each node's GPUs; none: processors."""
    cores: tuple[tuple[int, ...], ...] = ()
    """On processors and one node: of each rank; none: anywhere."""


def torchrun(assembly: Assembly, node: int, folder: Path) -> list[str]:
    """The command of one node."""
    words = [sys.executable, "-m", "torch.distributed.run"]
    if assembly.rendezvous is None:
        words.append("--standalone")
    else:
        words += ["--nnodes", str(assembly.nodes), "--node-rank", str(node), "--rdzv-backend", "static"]
        words += ["--rdzv-endpoint", assembly.rendezvous, "--rdzv-id", assembly.id]
        words += ["--rdzv-conf", f"timeout={MEET_S}"]
    words += ["--nproc-per-node", str(assembly.ranks_a_node)]
    worker = ["-m", "full_runs.trainer.worker", "--folder", str(folder.absolute())]
    if not node:
        worker.append("--watched")
    if not assembly.cores:
        return [*words, *worker]
    # torchrun on all cores of its ranks; each of these takes its own before it imports torch.
    together = sorted({core for own in assembly.cores for core in own})
    words = [*pinned.words([together]), *words]
    return [*words, "--no-python", *pinned.words(assembly.cores), sys.executable, "-u", *worker]


def environment(assembly: Assembly, config: TrainerConfig, inherited: Mapping[str, str]) -> dict[str, str]:
    """All variables of the ranks of one node.

    Raises:
        ValueError: `CUDA_VISIBLE_DEVICES` shows fewer GPUs than the ranks have.
    """
    here = str(Path(__file__).resolve().parents[2])
    ours = {**inherited, "PYTHONPATH": os.pathsep.join([here, *filter(None, [inherited.get("PYTHONPATH")])])}
    if assembly.gpus:
        ours["CUDA_VISIBLE_DEVICES"] = visible(assembly.gpus, inherited.get("CUDA_VISIBLE_DEVICES"))
    if assembly.cores:
        ours["OMP_NUM_THREADS"] = str(len(assembly.cores[0]))
    elif config.device == "cpu":
        ours.setdefault("OMP_NUM_THREADS", "1")
    # On one machine they talk over loopback only.
    names = [name for _, name in socket.if_nameindex() if name in ("lo", "lo0")]
    if names and (assembly.rendezvous is None or is_loopback(assembly.rendezvous.rpartition(":")[0])):
        ours.setdefault("GLOO_SOCKET_IFNAME", names[0])
    return ours


def dismiss(folder: Path, word: str) -> None:
    """Tell the other nodes that nothing more is started.

    Args:
        folder: of the trainer.
        word: another one each time.
    """
    if folder.is_dir():
        put(folder / OVER, word.encode())
