"""Who is shown a run while it goes on? TensorBoard or Weights & Biases, update by update.

What they show is a copy, in the run's own folder; the journal counts. Where an update does not follow the one
before it, since a run went on from a checkpoint, the copy is made anew from the journal.
"""

from __future__ import annotations

import contextlib
import math
import os
import shutil
import time
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any, Final, Protocol, TypeAlias, final

from analysis.export.tensorboard import EventFile
from analysis.export.trackers import wandb_run
from full_runs.controller.journal import event_log, lines


class Shown(Protocol):
    """A copy that is open."""

    def write(self, step: int, at_s: float, values: Mapping[str, float], /) -> None: ...

    def close(self) -> None: ...


Show: TypeAlias = Callable[[Path, str, Mapping[str, Any]], Shown]
"""(empty folder, name, configuration) -> a copy without a row."""


@final
class Live:
    """Told of each update.

    Args:
        show: opens a copy.
        folder: for it alone; what lies there is removed.
        journal: of the run.
        name: of the run.
        config: of the run.
    """

    def __init__(
        self, show: Show, folder: Path, journal: Path, *, name: str, config: Mapping[str, Any]
    ) -> None:
        self._show = show
        self._folder = folder
        self._journal = journal
        self._name = name
        self._config = config
        self._shown: Shown | None = None
        self._last = 0
        self._given_up = False

    def told(self, version: int, metrics: Mapping[str, float]) -> str | None:
        """An update is done, and the journal holds it.

        Returns:
            Why nothing is shown any more, once: a tracker's failure is no reason for a run to end.
        """
        if self._given_up:
            return None
        try:
            if self._shown is None or version != self._last + 1:
                self._shown = self._anew()
            else:
                self._shown.write(version, time.time(), _finite(metrics))
        except Exception as error:
            self._given_up = True
            return f"updates are shown no more: {error}"
        self._last = version
        return None

    def close(self) -> None:
        shown, self._shown = self._shown, None
        if shown is not None:
            with contextlib.suppress(OSError):
                shown.close()

    def _anew(self) -> Shown:
        """Everything that the journal holds and that counts."""
        self.close()
        shutil.rmtree(self._folder, ignore_errors=True)
        self._folder.mkdir(parents=True)
        shown = self._show(self._folder, self._name, self._config)
        updates = event_log(lines(self._journal)).updates.to_pylist()
        # The run's clock stood still while nothing ran, and began at zero: its last update is now.
        began_s = time.time() - max((row["train_end_s"] for row in updates), default=0.0)
        for row in updates:
            at_s = began_s + row["train_end_s"]
            shown.write(row["version"], at_s, _finite({k: v for k, v in row.items() if k not in _CLOCK}))
        return shown


_CLOCK: Final = frozenset({"version", "wait_start_s", "train_start_s", "train_end_s", "published_s"})


def _finite(metrics: Mapping[str, Any]) -> dict[str, float]:
    return {name: float(v) for name, v in metrics.items() if v is not None and math.isfinite(v)}


def tensorboard(folder: Path, _name: str, _config: Mapping[str, Any]) -> Shown:
    """`tensorboard --logdir` of the folder, or of one above it."""
    return EventFile(folder / f"events.out.tfevents.{time.time_ns()}.policylag")


@final
class _Wandb:
    def __init__(self, tracked: Any) -> None:
        self._tracked = tracked

    def write(self, step: int, at_s: float, values: Mapping[str, float]) -> None:  # noqa: ARG002 - its own
        self._tracked.log(dict(values), step=step)

    def close(self) -> None:
        self._tracked.finish()


def wandb(folder: Path, name: str, config: Mapping[str, Any]) -> Shown:
    """For `wandb sync`; sent at once only where WANDB_MODE says so. Made anew, it is another run there."""
    return _Wandb(wandb_run(folder, name, config, mode=os.environ.get("WANDB_MODE", "offline")))


SHOW: Final[Mapping[str, Show]] = {"tensorboard": tensorboard, "wandb": wandb}
