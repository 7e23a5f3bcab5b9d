"""Are the weights in an engine, to the last bit, those that the trainer saved?

Asked three times. What the engine's workers took from the file is compared tensor by tensor, by the
checkpoint's names. What the engine holds afterwards is compared by its own names. And a matrix that a CPU
engine has packed into a layout of its own, so that it has no digest, is compared by its products: see
`full_runs.engine.extension`.
"""

from __future__ import annotations

import hashlib
from collections.abc import Mapping
from pathlib import Path
from typing import Final

import torch

from full_runs.engine.layout import as_engine, digest, tensors_of

PACKED: Final = hashlib.sha256(b"").hexdigest()
"""Digest of a parameter that the engine has emptied, its numbers being elsewhere."""
_WHOLE_RANK: Final = "dp0:pp0:pcp0:tp0:"

Shapes = Mapping[str, tuple[int, ...]]


def inventory(folder: Path) -> dict[str, tuple[int, ...]]:
    """Shape of every tensor in a folder's safetensors files, by name; reads no numbers.

    Raises:
        ValueError: there are none, or one cannot be read.
    """
    from safetensors import SafetensorError, safe_open

    files = sorted(folder.glob("*.safetensors"))
    if not files:
        raise ValueError(f"{folder} holds no safetensors file")
    found: dict[str, tuple[int, ...]] = {}
    for file in files:
        try:
            with safe_open(file, framework="pt") as opened:
                for name in opened.keys():  # noqa: SIM118 - not a mapping
                    found[name] = tuple(opened.get_slice(name).get_shape())
        except (SafetensorError, OSError) as broken:
            raise ValueError(f"{file} cannot be read: {broken}") from None
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
