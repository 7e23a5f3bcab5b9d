"""What is known of a tensor before it is sent? All that a receiver needs to make room for it.

Said twice: the controller tells the engine, and over Gloo the sender itself, on the line, before its first
tensor. Room of another size than what comes would end the receiver's process: Gloo does not raise.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

import torch
from torch import Tensor


class Outline(NamedTuple):
    """A tensor without its numbers."""

    name: str
    """In the published files."""
    dtype: str
    """As torch calls it: `float32`."""
    shape: tuple[int, ...]


def as_update(outlines: Sequence[Outline]) -> dict[str, Any]:
    """The body of vLLM's `/update_weights`, for its `nccl` receiver and for ours: the order is the wire's."""
    return {
        "names": [each.name for each in outlines],
        "dtype_names": [each.dtype for each in outlines],
        "shapes": [list(each.shape) for each in outlines],
    }


def of_update(update: Mapping[str, Any]) -> list[Outline]:
    """What that body says."""
    columns = zip(update["names"], update["dtype_names"], update["shapes"], strict=True)
    return [Outline(name, dtype, tuple(shape)) for name, dtype, shape in columns]


def to_bytes(outlines: Sequence[Outline]) -> Tensor:
    """As they are sent."""
    return torch.frombuffer(bytearray(json.dumps(as_update(outlines)).encode()), dtype=torch.uint8)


def from_bytes(sent: Tensor) -> list[Outline]:
    return of_update(json.loads(sent.numpy().tobytes()))


def check_agreed(announced: Sequence[Outline], expected: Sequence[Outline]) -> None:
    """Raise unless what is announced is what a receiver was told to expect, in its order.

    Raises:
        ValueError: naming the first tensor that is not.
    """
    for place, (coming, wanted) in enumerate(zip(announced, expected, strict=False), start=1):
        if coming != wanted:
            raise ValueError(f"tensor {place} that comes is {_said(coming)}, and expected is {_said(wanted)}")
    if len(announced) != len(expected):
        longer = max(announced, expected, key=len)[min(len(announced), len(expected))]
        raise ValueError(
            f"{len(announced)} tensors come, and {len(expected)} are expected: the first that one side "
            f"alone knows is {longer.name}"
        )


def _said(outline: Outline) -> str:
    return f"{outline.name} ({outline.dtype}, {'x'.join(map(str, outline.shape))})"
