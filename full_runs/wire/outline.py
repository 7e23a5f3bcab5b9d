"""What is known of a tensor before it is sent? All that a receiver needs to make room for it."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple


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
