"""How does an engine keep the tensors of a checkpoint?

Some matrices lie side by side in it: queries, keys and values in one, gate and up in another. Embeddings
have rows of zeros behind them, up to a round number. That is for one rank; with tensor parallelism each has
a part.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Final

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


def as_engine(tensors: Mapping[str, Tensor]) -> dict[str, Tensor]:
    """The checkpoint's tensors as an engine of one rank keeps them, by its names."""
    made: dict[str, Tensor] = {}
    part_of = {part: whole for whole, parts in FUSED.items() for part in parts}
    for name, tensor in tensors.items():
        module = next((word for word in name.split(".") if word in part_of), None)
        if name.endswith(EMBEDDINGS):
            made[name] = functional.pad(tensor, (0, 0, 0, -len(tensor) % ROWS_OF_EMBEDDINGS))
        elif module is None:
            made[name] = tensor
        else:
            whole = part_of[module]
            fused = name.replace(f".{module}.", f".{whole}.")
            if fused not in made:
                parts = [name.replace(f".{module}.", f".{part}.") for part in FUSED[whole]]
                made[fused] = torch.cat([tensors[part] for part in parts])
    return made


def digest(tensor: Tensor) -> str:
    """SHA-256 of its bytes."""
    flat = tensor.detach().cpu().contiguous().view(-1).view(torch.uint8)
    return hashlib.sha256(flat.numpy().tobytes()).hexdigest()
