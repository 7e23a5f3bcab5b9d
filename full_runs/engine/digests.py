"""Are the weights in an engine, to the last bit, those that the trainer saved?

Asked three times. What the engine's workers took is compared tensor by tensor, by the checkpoint's names.
What the engine holds afterwards is compared by its own names. And a matrix that a CPU engine has packed into
a layout of its own, so that it has no digest, is compared by its products: see `full_runs.engine.watch`.
"""

from __future__ import annotations

import hashlib
from collections.abc import Mapping
from pathlib import Path
from typing import Any, Final, final

import torch
from torch import Tensor

from full_runs.engine.layout import Part, bytes_of, empty_rows, part, tensors_of

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


@final
class Sums:
    """Digests of a model's tensors, made as they pass one by one.

    Of a matrix that an engine makes of several, the digest goes on from part to part, so none of them is kept
    unless it comes before its turn.

    Args:
        dtype: that the engine keeps them in; None: in theirs.
    """

    def __init__(self, dtype: torch.dtype | None = None) -> None:
        self._dtype = dtype
        self.sent: dict[str, str] = {}
        """SHA-256 of every tensor as it passed, by its name."""
        self.held: dict[str, str] = {}
        """SHA-256 of every parameter of an engine of one rank that took them, by the engine's name."""
        self._begun: dict[str, Any] = {}
        self._next: dict[str, int] = {}
        self._early: dict[str, Tensor] = {}

    def add(self, name: str, tensor: Tensor) -> None:
        """The next one."""
        sha = hashlib.sha256(bytes_of(tensor))
        self.sent[name] = sha.hexdigest()
        if self._dtype not in (None, tensor.dtype):
            tensor = tensor.to(self._dtype)
            sha = hashlib.sha256(bytes_of(tensor))
        if (own := part(name)) is not None:
            self._add_part(own, name, tensor, sha)
            return
        row = tensor[0].numel() * tensor.element_size() if tensor.dim() > 1 else 0
        sha.update(bytes(empty_rows(name, len(tensor)) * row if row else 0))
        self.held[name] = sha.hexdigest()

    def _add_part(self, own: Part, name: str, tensor: Tensor, sha: Any) -> None:
        if own.place == 0:
            self._begun[own.whole], self._next[own.whole] = sha, 1
        else:
            self._early[name] = tensor
        place = self._next.get(own.whole, 0)
        while 0 < place < len(own.parts) and own.parts[place] in self._early:
            self._begun[own.whole].update(bytes_of(self._early.pop(own.parts[place])))
            place += 1
        self._next[own.whole] = place
        if place == len(own.parts):
            self.held[own.whole] = self._begun.pop(own.whole).hexdigest()


def sums_of(folder: Path, dtype: torch.dtype | None = None) -> Sums:
    """Of a folder's tensors, one in memory at a time."""
    sums = Sums(dtype)
    for name, tensor in tensors_of(folder):
        sums.add(name, tensor)
    return sums


def check_taken(taken: Mapping[str, str], saved: Mapping[str, str], where: str) -> None:
    """Raise ValueError, by name, unless an engine's worker took exactly the tensors that were saved."""
    if wrong := differing(taken, saved):
        raise ValueError(f"{where} took other weights than were sent: {', '.join(wrong)}")


def check_held(held: Mapping[str, str], expected: Mapping[str, str], where: str) -> int:
    """How many parameters of an engine of one rank could be compared.

    Raises:
        ValueError: naming every parameter with other bytes than expected.
    """
    own = {name.removeprefix(_WHOLE_RANK): value for name, value in held.items() if value != PACKED}
    if wrong := differing(own, {name: value for name, value in expected.items() if name in own}):
        raise ValueError(f"{where} holds other weights than were sent: {', '.join(wrong)}")
    return len(own)


def differing(found: Mapping[str, str], expected: Mapping[str, str]) -> list[str]:
    """Names in one of them only, or with another digest, in order."""
    return sorted(name for name in found.keys() | expected.keys() if found.get(name) != expected.get(name))
