"""How does an engine keep the tensors of a checkpoint?

Some matrices lie side by side in it: queries, keys and values in one, gate and up in another. Embeddings
have rows of zeros behind them, up to a round number. With tensor parallelism each process keeps a slice of
every tensor: whole heads of queries, keys and values, hidden units of the feed-forward part, rows of
embeddings.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Final, NamedTuple

import torch
from torch import Tensor
from torch.nn import functional

FUSED: Final[Mapping[str, tuple[str, ...]]] = {
    "qkv_proj": ("q_proj", "k_proj", "v_proj"),
    "gate_up_proj": ("gate_proj", "up_proj"),
}
"""Engine's module -> the checkpoint's modules that it is made of, in order, one under the other."""
EMBEDDINGS: Final = ("embed_tokens.weight", "lm_head.weight")
ROWS_OF_EMBEDDINGS: Final = 64
"""Their number is a multiple of it."""
BY_INPUT: Final = ("o_proj.weight", "down_proj.weight")
"""Matrices whose columns are shared out between processes."""
EXPERTS: Final = ".experts."
"""In names of a mixture's weights, the checkpoint's and the engine's, which keeps many in one."""


class Process(NamedTuple):
    """One of an engine, under tensor parallelism."""

    rank: int = 0
    size: int = 1
    """Of the engine's processes."""
    head_size: int = 1
    """Rows of one head in queries, keys and values."""


ALONE: Final = Process()


class Slice(NamedTuple):
    """Of a tensor."""

    dim: int
    start: int
    stop: int


def tensors_of(folder: Path) -> Iterator[tuple[str, Tensor]]:
    """Every tensor of a folder's safetensors files, one at a time."""
    from safetensors import safe_open

    for file in sorted(folder.glob("*.safetensors")):
        with safe_open(file, framework="pt") as opened:
            for name in opened.keys():  # noqa: SIM118 - not a mapping
                yield name, opened.get_tensor(name)


class Part(NamedTuple):
    """A tensor's place in what an engine makes of several."""

    whole: str
    """The engine's name."""
    parts: tuple[str, ...]
    """The checkpoint's names of all of them, one under the other."""
    place: int


def part(name: str) -> Part:
    """Where a tensor of the checkpoint goes; most keep their name and stay alone."""
    for whole, modules in FUSED.items():
        module = next((word for word in name.split(".") if word in modules), None)
        if module is not None:
            names = tuple(name.replace(f".{module}.", f".{each}.") for each in (whole, *modules))
            return Part(whole=names[0], parts=names[1:], place=modules.index(module))
    return Part(whole=name, parts=(name,), place=0)


def empty_rows(name: str, rows: int) -> int:
    """Behind the last row of embeddings, in an engine of one process; 0 of anything else."""
    return -rows % ROWS_OF_EMBEDDINGS if name.endswith(EMBEDDINGS) else 0


def slice_of(name: str, shape: tuple[int, ...], process: Process) -> Slice:
    """What a process keeps of a tensor of the checkpoint.

    Where there are fewer heads of keys and values than processes, several keep the same one.
    """
    rank, count = process.rank, process.size
    if name.endswith(EMBEDDINGS):
        rows = shape[0]
        share = (rows + empty_rows(name, rows)) // count
        return Slice(0, min(rank * share, rows), min((rank + 1) * share, rows))
    if name.endswith(BY_INPUT):
        share = shape[1] // count
        return Slice(1, rank * share, (rank + 1) * share)
    own = part(name)
    if len(own.parts) == 1:
        return Slice(0, 0, shape[0])
    share = shape[0] // count
    if "qkv_proj" in own.whole and own.place > 0 and share < process.head_size:
        share = process.head_size
        rank //= count * share // shape[0]
    return Slice(0, rank * share, (rank + 1) * share)


def kept(name: str, tensor: Tensor, process: Process) -> Tensor:
    """That slice: a view, or the tensor itself if nothing is left out."""
    dim, start, stop = slice_of(name, tuple(tensor.shape), process)
    return tensor if stop - start == tensor.shape[dim] else tensor.narrow(dim, start, stop - start)


def as_engine(tensors: Mapping[str, Tensor]) -> dict[str, Tensor]:
    """The checkpoint's tensors as an engine of one process keeps them, by its names."""
    made: dict[str, Tensor] = {}
    for name, tensor in tensors.items():
        own = part(name)
        if own.whole == name:
            rows = empty_rows(name, len(tensor))
            made[name] = functional.pad(tensor, (0, 0, 0, rows)) if rows else tensor
        elif own.whole not in made:
            made[own.whole] = torch.cat([tensors[each] for each in own.parts])
    return made


def bytes_of(tensor: Tensor) -> memoryview:
    """Its numbers, row by row, where they lie if they lie so."""
    flat = tensor.detach().cpu().contiguous().view(-1).view(torch.uint8)
    return flat.numpy().data


def digest(tensor: Tensor) -> str:
    """SHA-256 of its bytes."""
    return hashlib.sha256(bytes_of(tensor)).hexdigest()
