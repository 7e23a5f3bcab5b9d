"""Lines over NCCL, from a GPU of the trainer to vLLM's own `nccl` receiver in an engine.

Not executed so far: no GPU was available. The receiver's protocol is followed, not its trainer class: that
one gathers all weights once for every engine, and asks engines over HTTP from the trainer's process, without
a key.
"""

from __future__ import annotations

import socket
import time
from collections.abc import Callable, Sequence
from functools import partial
from typing import Any, Final, final

import torch
from torch import Tensor

from full_runs.wire.lines import Line, Opened
from full_runs.wire.outline import Outline

_POLL_S: Final = 0.0005


@final
class NcclLine:
    """Over vLLM's communicator, which knows no timeout: one that is exceeded aborts it.

    Args:
        communicator: of this process, as rank 0, and an engine's workers.
        timeout_s: of one tensor.
    """

    def __init__(self, communicator: Any, timeout_s: float) -> None:
        self._communicator = communicator
        self._timeout_s = timeout_s

    def send(self, tensor: Tensor) -> Callable[[], object]:
        self._communicator.broadcast(tensor, src=0, stream=torch.cuda.current_stream())
        event: Any = torch.cuda.Event
        arrived = event()
        arrived.record()

        def wait() -> None:
            end_s = time.monotonic() + self._timeout_s
            while not arrived.query():
                if time.monotonic() > end_s:
                    raise RuntimeError(f"a tensor did not arrive in {self._timeout_s:g} s")
                time.sleep(_POLL_S)

        return wait

    def close(self) -> None:
        self._communicator.destroy()


def over_nccl(workers: Sequence[int], address: str, timeout_s: float, _outlines: Sequence[Outline]) -> Opened:
    """Lines over NCCL, for tensors in a GPU's memory; one tensor at a time, none packed with others.

    The receiver is vLLM's own: it believes what the controller told it of the tensors.
    """
    places = [
        # The sender is rank 0 of each group, and workers begin at 1.
        {
            "master_address": address,
            "master_port": _free_port(address),
            "rank_offset": 1,
            "world_size": count + 1,
        }
        for count in workers
    ]

    def join(place: dict[str, Any]) -> Line:
        from vllm.distributed.weight_transfer.nccl_common import trainer_init

        return NcclLine(trainer_init(place), timeout_s)

    return Opened(
        told=[place | {"packed": False} for place in places],
        joins=[partial(join, place) for place in places],
        keep=None,
    )


def _free_port(address: str) -> int:
    with socket.socket(socket.AF_INET6 if ":" in address else socket.AF_INET) as probe:
        probe.bind((address, 0))
        return int(probe.getsockname()[1])
