"""In which way do a trainer's weights reach the engines of a run: from folders, or over the wire?"""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import NamedTuple, Protocol

from full_runs.configs.record import FullConfig
from full_runs.controller import training
from full_runs.controller.versions import keep_only, of_version
from full_runs.engine.launch import GLOO
from full_runs.push import Prepare, Weights
from full_runs.push_folder import InFolder
from full_runs.push_wire import OverWire, Sender
from full_runs.trainer.client import LOOPBACK


class Way(NamedTuple):
    """Of one run."""

    start: Weights
    """Those of version 0, for an engine that does not start with them."""
    prepare: Prepare


class Trainer(training.Trainer, Sender, Protocol):
    """One that knows both ways."""

    def save_weights(self, folder: Path, /) -> None: ...


def way_of(config: FullConfig, trainer: Trainer, model: Path, folder: Path) -> Way:
    """The one that is asked for.

    Args:
        model: the starting weights.
        folder: for weights, if they are written.
    """
    if config.push_over == "wire":
        address = LOOPBACK if config.rendezvous is None else config.rendezvous.rpartition(":")[0].strip("[]")
        return over_the_wire(
            OverWire(trainer, address, workers=config.tensor_parallel, timeout_s=config.wire_timeout_s)
        )
    return from_folders(trainer, model, folder)


def backend(config: FullConfig) -> str | None:
    """Of vLLM's weight transfer, which an engine must be started with; None: it needs none."""
    if config.push_over == "folder":
        return None
    return "nccl" if config.gpus else GLOO


def from_folders(trainer: Trainer, model: Path, folder: Path) -> Way:
    """The trainer writes each version into a folder of its own; the last but one stays as well.

    Args:
        model: the starting weights.
        folder: for all of them.
    """
    last: list[Path] = []

    async def prepare(version: int) -> Weights:
        # What else lies there is of an earlier process of this run.
        keep_only(folder, last)
        last[:] = [of_version(folder, version)]
        await asyncio.to_thread(trainer.save_weights, last[0])
        return InFolder(last[0])

    return Way(InFolder(model), prepare)


def over_the_wire(weights: OverWire) -> Way:
    """The trainer sends what it holds, whenever it is asked; nothing is written."""

    async def prepare(_version: int) -> Weights:
        return weights

    return Way(weights, prepare)
