"""How does an engine keep the tensors of a checkpoint?

Some matrices lie side by side in it: queries, keys and values in one, gate and up in another. Embeddings
have rows of zeros behind them, up to a round number. That is for one rank; with tensor parallelism each has
a part.
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


def part(name: str) -> Part | None:
    """Where a tensor of the checkpoint goes; None if it keeps its name and stays alone."""
    for whole, modules in FUSED.items():
        module = next((word for word in name.split(".") if word in modules), None)
        if module is not None:
            names = tuple(name.replace(f".{module}.", f".{each}.") for each in (whole, *modules))
            return Part(whole=names[0], parts=names[1:], place=modules.index(module))
    return None


def empty_rows(name: str, rows: int) -> int:
    """Behind the last row of embeddings, in an engine; 0 of anything else."""
    return -rows % ROWS_OF_EMBEDDINGS if name.endswith(EMBEDDINGS) else 0


def as_engine(tensors: Mapping[str, Tensor]) -> dict[str, Tensor]:
    """The checkpoint's tensors as an engine of one rank keeps them, by its names."""
    made: dict[str, Tensor] = {}
    for name, tensor in tensors.items():
        if (own := part(name)) is None:
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
