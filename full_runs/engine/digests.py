"""Are the weights in an engine, to the last bit, those that the trainer saved or sent?

Names and shapes are compared before an engine is touched. What the engine's workers took is compared tensor
by tensor, by the checkpoint's names; that they hold it, each sees for itself: `full_runs.engine.watch`.
"""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

from full_runs.engine.layout import digest, tensors_of

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


def digests_of(folder: Path) -> dict[str, str]:
    """SHA-256 of every tensor of a folder, one in memory at a time."""
    return {name: digest(tensor) for name, tensor in tensors_of(folder)}


def check_taken(taken: Mapping[str, str], saved: Mapping[str, str], where: str) -> None:
    """Raise ValueError, by name, unless an engine's worker took exactly the tensors that were saved."""
    if wrong := differing(taken, saved):
        raise ValueError(f"{where} took other weights than were sent: {', '.join(wrong)}")


def differing(found: Mapping[str, str], expected: Mapping[str, str]) -> list[str]:
    """Names in one of them only, or with another digest, in order."""
    return sorted(name for name in found.keys() | expected.keys() if found.get(name) != expected.get(name))
