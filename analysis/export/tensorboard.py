"""TensorBoard event files, with TensorBoard's own messages and record writer; its scalars are 32-bit floats.

Its asynchronous writer is not used: a full disk must be an error, and two exports of a run equal bytes. An
event's wall time is the run's own clock, so that "relative" shows simulated time.
"""

from __future__ import annotations

import contextlib
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, Final, final

from analysis.export.extras import extra
from analysis.export.rows import Row

FILE: Final = "events.out.tfevents.0.policylag"
"""TensorBoard looks for "tfevents" in a name."""


@final
class EventFile:
    """One event file, open; a row is on the disk when `write` returns.

    Raises:
        ValueError: TensorBoard is not installed.
    """

    def __init__(self, path: Path) -> None:
        self._events = extra("tensorboard.compat.proto.event_pb2", "tensorboard")
        self._summaries = extra("tensorboard.compat.proto.summary_pb2", "tensorboard")
        records = extra("tensorboard.summary.writer.record_writer", "tensorboard")
        self._stream = open(path, "xb")  # noqa: SIM115 - `close` does
        self._writer = records.RecordWriter(self._stream)
        self._write(wall_time=0.0, file_version="brain.Event:2")

    def write(self, step: int, at_s: float, values: Mapping[str, float]) -> None:
        """One row of scalars."""
        value = self._summaries.Summary.Value
        shown = [value(tag=name, simple_value=number) for name, number in values.items()]
        self._write(wall_time=at_s, step=step, summary=self._summaries.Summary(value=shown))

    def close(self) -> None:
        self._stream.close()

    def _write(self, **fields: Any) -> None:
        self._writer.write(self._events.Event(**fields).SerializeToString())
        self._stream.flush()


def write_tensorboard(folder: Path, rows: Sequence[Row]) -> None:
    """A folder with one event file.

    Raises:
        ValueError: TensorBoard is not installed.
    """
    folder.mkdir()
    with contextlib.closing(EventFile(folder / FILE)) as file:
        for row in rows:
            file.write(row.update, row.at_s, row.values)
