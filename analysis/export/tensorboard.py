"""TensorBoard event files, with TensorBoard's own messages and record writer; its scalars are 32-bit floats.

Its asynchronous writer is not used: a full disk must be an error, and two exports of a run equal bytes. An
event's wall time is the run's own clock, so that "relative" shows simulated time.
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Final

from analysis.export.extras import extra
from analysis.export.rows import Row

FILE: Final = "events.out.tfevents.0.policylag"
"""TensorBoard looks for "tfevents" in a name."""


def write_tensorboard(folder: Path, rows: Sequence[Row]) -> None:
    """A folder with one event file.

    Raises:
        ValueError: TensorBoard is not installed.
    """
    events = extra("tensorboard.compat.proto.event_pb2", "tensorboard")
    summaries = extra("tensorboard.compat.proto.summary_pb2", "tensorboard")
    records = extra("tensorboard.summary.writer.record_writer", "tensorboard")
    folder.mkdir()
    with open(folder / FILE, "wb") as stream:
        writer = records.RecordWriter(stream)
        writer.write(events.Event(wall_time=0.0, file_version="brain.Event:2").SerializeToString())
        for row in rows:
            values = [
                summaries.Summary.Value(tag=name, simple_value=value) for name, value in row.values.items()
            ]
            event = events.Event(wall_time=row.at_s, step=row.update, summary=summaries.Summary(value=values))
            writer.write(event.SerializeToString())
