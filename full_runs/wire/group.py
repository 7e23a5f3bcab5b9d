"""How does a trainer's process talk to an engine's workers, beside the groups that both are in already?

A Gloo process group of its own, never the default one. One end listens on one address only; whoever reaches
that port can take part, so it is loopback or a network that is closed to others.
"""

from __future__ import annotations

import socket
from collections.abc import Sequence
from datetime import timedelta
from typing import Any, NamedTuple

import torch
from torch import Tensor
from torch import distributed as dist
from torch._C._distributed_c10d import PrefixStore, TCPStore
from torch.distributed import ProcessGroupGloo

from full_runs.configs.hosts import is_loopback
from full_runs.wire.outline import Outline, from_bytes, to_bytes

SENDER = 0
"""Its rank; an engine's workers follow."""


class Listening(NamedTuple):
    """Where groups are formed, as long as it is held."""

    store: TCPStore
    port: int


def listening(address: str, timeout_s: float) -> Listening:
    """A meeting place that listens on `address` alone, on a port that is free."""
    family = socket.AF_INET6 if ":" in address else socket.AF_INET
    with socket.socket(family) as listener:
        listener.bind((address, 0))
        listener.listen()
        port = int(listener.getsockname()[1])
        store = TCPStore(
            address,
            port,
            is_master=True,
            wait_for_workers=False,
            timeout=timedelta(seconds=timeout_s),
            master_listen_fd=listener.detach(),  # the store closes it
        )
    return Listening(store, port)


def joined(address: str, port: int, name: str, *, rank: int, size: int, timeout_s: float) -> ProcessGroupGloo:
    """Wait until all of a group are at the meeting place.

    Args:
        name: of the group; many meet there.
        timeout_s: of waiting here, and of each tensor later.

    Raises:
        RuntimeError: somebody did not come in time.
    """
    patience = timedelta(seconds=timeout_s)
    # A connection of its own: a store's connection serves one who waits at a time.
    store = TCPStore(address, port, is_master=False, wait_for_workers=False, timeout=patience)
    gloo: Any = ProcessGroupGloo
    options = gloo._Options()
    options._timeout = patience
    if is_loopback(address):
        options._devices = [gloo.create_device(hostname=address)]
    else:
        options._devices = [gloo.create_default_device()]
    whole: ProcessGroupGloo = gloo(PrefixStore(name, store), rank, size, options)
    return whole


def announce(group: Any, outlines: Sequence[Outline]) -> None:
    """Say what will be sent; returns when all others have read it.

    Raises:
        RuntimeError: somebody did not.
    """
    said = to_bytes(outlines)
    broadcast(group, torch.tensor([len(said)])).wait()
    broadcast(group, said).wait()


def announced(group: Any) -> list[Outline]:
    """What the sender will send.

    Raises:
        RuntimeError: it did not say so.
    """
    size = torch.zeros(1, dtype=torch.int64)
    broadcast(group, size).wait()
    said = torch.zeros(int(size), dtype=torch.uint8)
    broadcast(group, said).wait()
    return from_bytes(said)


def broadcast(group: Any, tensor: Tensor) -> dist.Work:
    """Begin to send, or to receive, one tensor from the sender; `wait` ends it.

    Raises:
        RuntimeError: the other end is gone; or `wait` does.
    """
    options = dist.BroadcastOptions()
    options.rootRank = SENDER
    options.rootTensor = 0
    work: dist.Work = group.broadcast([tensor], options)
    return work
