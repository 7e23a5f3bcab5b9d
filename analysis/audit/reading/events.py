"""Which scalars does a TensorBoard event file hold? Read by TensorBoard's own loader, which is an optional
package.

Not by a reader of our own: the format holds old and new forms of a scalar, and the loader brings both into
one.
"""

from __future__ import annotations

import importlib
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from analysis.audit.reading.lines import Record, Tally


def is_event_file(head: bytes) -> bool:
    """Does a file begin with the record that every event file begins with?

    A record is its length (8 bytes), a checksum (4), and then a message that names the version of the format.
    """
    return b"brain.Event:" in head[12:64]


def event_records(path: Path, tally: Tally) -> Iterator[Record]:
    """One record a scalar: step, and the value under its tag.

    Raises:
        ValueError: TensorBoard is not installed.
    """
    try:
        loader: Any = importlib.import_module("tensorboard.backend.event_processing.event_file_loader")
        tensors: Any = importlib.import_module("tensorboard.util.tensor_util")
    except ImportError:
        raise ValueError(
            f"{path} is a TensorBoard event file, which needs the package tensorboard: pip install "
            "tensorboard"
        ) from None
    for event in loader.EventFileLoader(str(path)).Load():
        for value in event.summary.value:
            scalar = tensors.make_ndarray(value.tensor) if value.HasField("tensor") else value.simple_value
            try:
                number = float(scalar)
            except (TypeError, ValueError):
                continue  # a histogram, a text
            tally.records += 1
            yield {"step": float(event.step), value.tag: number}
