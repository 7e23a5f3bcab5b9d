"""Weights in a folder that trainer and engines both reach: written once, read by each engine."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from pathlib import Path
from typing import final

import torch

from full_runs.engine import digests
from full_runs.engine.client import EngineClient, EngineError
from full_runs.push import Given, Taken


@final
class InFolder:
    """The safetensors files of a folder.

    Args:
        folder: engines read it by this path.
    """

    def __init__(self, folder: Path) -> None:
        self.folder = folder.resolve()
        self._sent: dict[str, str] = {}

    async def ready(self, wanted: digests.Shapes, _dtype: torch.dtype, /) -> None:
        digests.check_inventory(digests.inventory(self.folder), wanted)
        self._sent = await asyncio.to_thread(digests.digests_of, self.folder)

    async def give(self, engines: Sequence[EngineClient], version: int) -> Given:
        async def one(engine: EngineClient) -> Taken:
            try:
                taken = await engine.take_weights(str(self.folder))
                await engine.set_version(version)
            except (EngineError, ValueError) as error:
                return error
            return taken

        taken = await asyncio.gather(*map(one, engines))
        return Given(version=version, sent=self._sent, taken=taken)
