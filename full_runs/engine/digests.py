"""Are the weights in an engine, to the last bit, those that the trainer saved?

Asked twice. What the engine's workers took from the file is compared tensor by tensor, by the checkpoint's
names. What the engine holds afterwards is compared by its own names, where it keeps a tensor as it is:
some matrices lie side by side there (queries, keys and values in one, gate and up in another), and those
that a CPU engine has packed into another layout have no digest.
"""

from __future__ import annotations

import hashlib
from collections.abc import Mapping
from pathlib import Path
from typing import Final

import torch
from torch import Tensor

from full_runs.engine.extension import digest, tensors_of

FUSED: Final[Mapping[str, tuple[str, ...]]] = {
    "qkv_proj": ("q_proj", "k_proj", "v_proj"),
    "gate_up_proj": ("gate_proj", "up_proj"),
}
"""Engine's module -> the checkpoint's modules that it is made of, in order, one under the other."""
PACKED: Final = hashlib.sha256(b"").hexdigest()
"""Digest of a parameter that the engine has emptied, its numbers being elsewhere."""
_WHOLE_RANK: Final = "dp0:pp0:pcp0:tp0:"

Shapes = Mapping[str, tuple[int, ...]]


def inventory(folder: Path) -> dict[str, tuple[int, ...]]:
    """Shape of every tensor in a folder's safetensors files, by name; reads no numbers.

    Raises:
        FileNotFoundError: there are none.
    """
    from safetensors import safe_open

    files = sorted(folder.glob("*.safetensors"))
    if not files:
        raise FileNotFoundError(f"{folder} holds no safetensors file")
    found: dict[str, tuple[int, ...]] = {}
    for file in files:
        with safe_open(file, framework="pt") as opened:
            for name in opened.keys():  # noqa: SIM118 - not a mapping
                found[name] = tuple(opened.get_slice(name).get_shape())
    return found


def check_inventory(pushed: Shapes, wanted: Shapes) -> None:
    """Raise unless exactly the wanted tensors are pushed, in the wanted shapes.

    An engine only warns of a tensor that it did not find, and goes on with what it had.

    Raises:
        ValueError: naming every tensor that is missing, of no use, or of another shape.
    """
    said = []
    if missing := sorted(wanted.keys() - pushed.keys()):
        said.append(f"missing: {', '.join(missing)}")
    if extra := sorted(pushed.keys() - wanted.keys()):
        said.append(f"not of this model: {', '.join(extra)}")
    said.extend(
        f"{name} has shape {pushed[name]}, the model's {wanted[name]}"
        for name in sorted(wanted.keys() & pushed.keys())
        if pushed[name] != wanted[name]
    )
    if said:
        raise ValueError(f"these weights cannot be pushed: {'; '.join(said)}")


def saved_digests(folder: Path) -> dict[str, str]:
    """SHA-256 of every tensor that the trainer saved, by name."""
    return {name: digest(tensor) for name, tensor in tensors_of(folder)}


def held_digests(folder: Path, dtype: torch.dtype) -> dict[str, str]:
    """SHA-256 of every parameter of an engine of one rank that took these weights, by the engine's name."""
    saved = {name: tensor.to(dtype) for name, tensor in tensors_of(folder)}
    return {name: digest(tensor) for name, tensor in as_engine(saved).items()}


def as_engine(tensors: Mapping[str, Tensor]) -> dict[str, Tensor]:
    """The checkpoint's tensors as an engine keeps them."""
    made: dict[str, Tensor] = {}
    part_of = {part: whole for whole, parts in FUSED.items() for part in parts}
    for name, tensor in tensors.items():
        module = next((word for word in name.split(".") if word in part_of), None)
        if module is None:
            made[name] = tensor
            continue
        whole = part_of[module]
        fused = name.replace(f".{module}.", f".{whole}.")
        if fused not in made:
            made[fused] = torch.cat([tensors[name.replace(f".{module}.", f".{p}.")] for p in FUSED[whole]])
    return made


def check_taken(taken: Mapping[str, str], saved: Mapping[str, str], where: str) -> None:
    """Raise ValueError, by name, unless an engine's worker took exactly the tensors that were saved."""
    if wrong := differing(taken, saved):
        raise ValueError(f"{where} took other weights than were saved: {', '.join(wrong)}")


def check_held(held: Mapping[str, str], expected: Mapping[str, str], where: str) -> int:
    """How many parameters of an engine of one rank could be compared.

    Raises:
        ValueError: naming every parameter with other bytes than expected.
    """
    own = {name.removeprefix(_WHOLE_RANK): value for name, value in held.items() if value != PACKED}
    if wrong := differing(own, {name: value for name, value in expected.items() if name in own}):
        raise ValueError(f"{where} holds other weights than were saved: {', '.join(wrong)}")
    return len(own)


def differing(found: Mapping[str, str], expected: Mapping[str, str]) -> list[str]:
    """Names in one of them only, or with another digest, in order."""
    return sorted(name for name in found.keys() | expected.keys() if found.get(name) != expected.get(name))
