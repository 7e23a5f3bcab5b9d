"""Who computes together: the processes of one trainer, and what they say to each other."""

from __future__ import annotations

import os
from collections.abc import Iterable
from dataclasses import dataclass
from datetime import timedelta
from typing import final

import torch
from torch import Tensor
from torch import distributed as dist
from torch.distributed.device_mesh import DeviceMesh, init_device_mesh
from torch.distributed.tensor import DTensor


@final
@dataclass(frozen=True, slots=True, kw_only=True)
class Ranks:
    """This process among the others. All methods are collective: every rank calls them, in one order."""

    mesh: DeviceMesh
    rank: int
    count: int
    device: torch.device

    def summed(self, tensor: Tensor) -> Tensor:
        """The sum over ranks, the same on all of them."""
        total = tensor.detach().clone()
        if self.count > 1:
            dist.all_reduce(total)
        return total

    def told(self, content: bytes) -> bytes:
        """What rank 0 says; the argument of the others is not read. Bytes, so that nothing is unpickled."""
        if self.count == 1:
            return content
        length = torch.tensor([len(content)])
        dist.broadcast(length, src=0)
        said = torch.empty(int(length), dtype=torch.uint8)
        if self.rank == 0 and content:
            said = torch.frombuffer(bytearray(content), dtype=torch.uint8)
        if len(said):
            dist.broadcast(said, src=0)
        return said.numpy().tobytes()

    def wait(self) -> None:
        """Until all are here."""
        self.summed(torch.zeros(1))


def joined(*, device: str, timeout_s: float) -> Ranks:
    """Join the processes that torchrun started.

    Args:
        device: "cpu", or "cuda" for one GPU a process.
        timeout_s: a collective that takes longer ends the process. A dead process is noticed at once.
    """
    own = torch.device(device)
    if device == "cuda":
        own = torch.device(device, int(os.environ["LOCAL_RANK"]))
        torch.cuda.set_device(own)
    backend = "cpu:gloo,cuda:nccl" if device == "cuda" else "gloo"
    dist.init_process_group(backend, timeout=timedelta(seconds=timeout_s))
    count = dist.get_world_size()
    return Ranks(
        mesh=init_device_mesh(device, (count,)),
        rank=dist.get_rank(),
        count=count,
        device=own,
    )


def total_norm(tensors: Iterable[Tensor]) -> float:
    """Euclidean norm of all of them together; of sharded tensors, over all ranks (collective)."""
    norm = torch.nn.utils.get_total_norm(list(tensors))
    return float(norm.full_tensor() if isinstance(norm, DTensor) else norm)


def local(tensor: Tensor) -> Tensor:
    """This rank's part, which shares memory with the whole."""
    return tensor.to_local() if isinstance(tensor, DTensor) else tensor


def as_part(part: Tensor, whole: Tensor) -> Tensor:
    """The other way round: this rank's part of something that lies on ranks as `whole` does."""
    if not isinstance(whole, DTensor):
        return part
    return DTensor.from_local(
        part, whole.device_mesh, whole.placements, run_check=False, shape=whole.shape, stride=whole.stride()
    )
