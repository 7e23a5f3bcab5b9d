"""How do new weights reach the engines while they decode, so that no engine ever serves a mixed set?

    check names and shapes -> all engines stand still -> each takes the weights -> digests agree
    -> (keys and values are thrown away) -> each is told the version -> all go on

An engine that fails on the way stays still and is tried again; one that fails for good is named and never
goes on, so what it holds half-way is never sampled from. Requests stay in flight throughout.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TypeAlias, final

import torch

from full_runs.engine import digests
from full_runs.engine.client import EngineClient, EngineError, KeysAtPush

Take: TypeAlias = Callable[[EngineClient], Awaitable[int]]


@final
@dataclass(frozen=True, slots=True, kw_only=True)
class Pushed:
    """What a push did."""

    version: int
    engines: tuple[int, ...]
    """Places of the engines that hold the weights and went on."""
    failed: tuple[tuple[int, str], ...]
    """Places of those that stand still for good, and why."""
    stood_still_s: float
    tensors: int
    compared: int
    """Parameters compared in the engine, by their bytes or, if packed, by their products; the least over
    engines."""


@final
@dataclass(frozen=True, slots=True, kw_only=True)
class Pusher:
    """Pushes folders of weights."""

    wanted: digests.Shapes
    """Of the model that the engines were started with."""
    keys: KeysAtPush = "recompute"
    """Running requests go on with the keys and values of the old weights, or compute them again."""
    attempts: int = 2
    whole_engines: bool = True
    """Each engine is one process and keeps the checkpoint's matrices, so that they can be compared."""
    dtype: torch.dtype = torch.float32
    """That engines keep weights in."""

    async def push(self, engines: Sequence[EngineClient], folder: Path, version: int) -> Pushed:
        """Give `folder`'s weights to all engines, as `version`.

        Raises:
            ValueError: the folder's tensors are not the model's; no engine was touched.
        """
        folder = folder.resolve()
        digests.check_inventory(digests.inventory(folder), self.wanted)
        saved = await asyncio.to_thread(digests.saved_digests, folder)
        held = await asyncio.to_thread(digests.held_digests, folder, self.dtype) if self.whole_engines else {}
        began_s = time.monotonic()

        async def one(engine: EngineClient) -> int:
            await engine.pause()
            for taken in await engine.take_weights(str(folder)):
                digests.check_taken(taken, saved, engine.url)
            compared = 0
            if self.whole_engines:
                compared = digests.check_held(await engine.digests(), held, engine.url)
                compared += await engine.check_products(str(folder))
            if self.keys == "recompute":
                await engine.forget_keys()
            await engine.set_version(version)
            return compared

        found = await asyncio.gather(*(self._tried(one, engine) for engine in engines))
        compared = [each for each in found if isinstance(each, int)]
        failed = {place: str(each) for place, each in enumerate(found) if not isinstance(each, int)}
        going_on: list[int] = []
        for place, engine in enumerate(engines):
            if place in failed:
                continue
            try:
                await engine.resume()
                going_on.append(place)
            except EngineError as error:
                failed[place] = str(error)
        return Pushed(
            version=version,
            engines=tuple(going_on),
            failed=tuple(sorted(failed.items())),
            stood_still_s=time.monotonic() - began_s,
            tensors=len(saved),
            compared=min(compared, default=0),
        )

    async def _tried(self, one: Take, engine: EngineClient) -> int | Exception:
        """What `one` returns, or the last error of so many attempts."""
        for attempt in range(self.attempts):
            try:
                return await one(engine)
            except (EngineError, ValueError) as error:
                if attempt + 1 == self.attempts:
                    return error
        raise AssertionError("at least one attempt")
