"""Weights over the wire, through vLLM's weight transfer: no file, and no host that both ends share.

The trainer opens a line to each engine and sends one tensor after another, while the engines, told over HTTP
what comes, load layer by layer. An engine that dies breaks its own line only, so neither the trainer nor the
others wait for it longer than a tensor may take.

An engine that comes late or again is sent what the trainer holds *then*, under that version (*choice*: a copy
of what was pushed last would cost the trainer its size in memory, or the folder that is saved here). It may
be newer than what the others hold, by the updates of one push at most; its tokens say so.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Mapping, Sequence
from typing import Any, Protocol, final

import torch

from full_runs.engine import digests
from full_runs.engine.client import EngineClient, EngineError
from full_runs.push import Given, Taken
from full_runs.wire.lines import ENGINE_PATIENCE
from full_runs.wire.outline import Outline, as_update
from full_runs.wire.send import Sent

Told = Sequence[Mapping[str, Any]]
"""The body of each engine's `/init_weight_transfer_engine`."""


class Sender(Protocol):
    """A trainer; its calls block."""

    def weights(self) -> list[Outline]:
        """All tensors that it would send, in their order."""
        ...

    def send_weights(
        self, workers: Sequence[int], address: str, timeout_s: float, opened: Callable[[Told], None], /
    ) -> Sent:
        """Send to so many engines, of so many workers each; `opened` is told once they may join."""
        ...


@final
class OverWire:
    """What a trainer holds whenever it is asked.

    Args:
        sender: the trainer.
        address: of the trainer's first rank, where engines join it.
        workers: processes of an engine.
        timeout_s: of one tensor, and of joining; an engine that takes longer is given up.
    """

    def __init__(self, sender: Sender, address: str, *, workers: int, timeout_s: float) -> None:
        self._sender = sender
        self._address = address
        self._workers = workers
        self._timeout_s = timeout_s
        self._outlines: list[Outline] = []

    async def ready(self, wanted: digests.Shapes, dtype: torch.dtype, /) -> None:
        outlines = self._outlines = await asyncio.to_thread(self._sender.weights)
        digests.check_inventory({each.name: each.shape for each in outlines}, wanted)
        said = str(dtype).removeprefix("torch.")
        if other := sorted({each.dtype for each in outlines} - {said}):
            raise ValueError(
                f"these weights cannot be pushed: they are {', '.join(other)}, and engines' {said}"
            )

    async def give(self, engines: Sequence[EngineClient], version: int) -> Given:
        """`version` is what the trainer is thought to hold; what it says counts.

        Raises:
            TrainerError: from the trainer.
        """
        watching = await asyncio.gather(*(_said(engine.watch_weights()) for engine in engines))
        taken: dict[int, Taken] = {place: why for place, why in enumerate(watching) if why is not None}
        coming = [place for place in range(len(engines)) if place not in taken]
        sent = await self._send({place: engines[place] for place in coming}, taken)
        if sent is None:
            return Given(version=version, sent={}, taken=[taken[place] for place in range(len(engines))])
        left = [place for place in coming if place not in taken]
        ends = await asyncio.gather(*(_end(engines[place], sent.version) for place in left))
        taken |= dict(zip(left, ends, strict=True))
        return Given(
            version=sent.version,
            sent=sent.sent,
            taken=[taken[place] for place in range(len(engines))],
        )

    async def _send(self, engines: Mapping[int, EngineClient], taken: dict[int, Taken]) -> Sent | None:
        """Trainer and engines at the same time; `taken` is told of those that failed."""
        if not engines:
            return None
        loop = asyncio.get_running_loop()
        opened: asyncio.Future[Told] = loop.create_future()

        def tell(told: Told) -> None:
            loop.call_soon_threadsafe(opened.set_result, told)

        workers = [self._workers] * len(engines)
        sending = asyncio.create_task(
            asyncio.to_thread(self._sender.send_weights, workers, self._address, self._timeout_s, tell)
        )
        receiving: dict[int, asyncio.Task[EngineError | None]] = {}
        try:
            either: set[asyncio.Future[Any]] = {sending, opened}
            await asyncio.wait(either, return_when=asyncio.FIRST_COMPLETED)
            if not opened.done():
                sending.result()
            update = as_update(self._outlines)
            for (place, engine), told in zip(engines.items(), opened.result(), strict=True):
                receiving[place] = asyncio.create_task(_receive(engine, told, update))
            sent = await sending
            # An engine that was sent everything still has to load the last of it.
            await asyncio.wait(receiving.values(), timeout=ENGINE_PATIENCE * self._timeout_s)
        finally:
            for task in (sending, *receiving.values()):
                task.cancel()
        for number, (place, task) in enumerate(receiving.items()):
            if not task.done() or task.cancelled():
                taken[place] = EngineError(f"{engines[place].url} did not take all weights in time")
            elif (why := task.result()) is not None:
                taken[place] = why
            elif number in sent.failed:
                taken[place] = EngineError(f"{engines[place].url}: {sent.failed[number]}")
        return sent


async def _receive(
    engine: EngineClient, told: Mapping[str, Any], update: Mapping[str, Any]
) -> EngineError | None:
    """Join, and load what comes; why not."""
    try:
        await engine.join_transfer(told)
        await engine.begin_update()
        await engine.update_weights(update)
    except EngineError as error:
        # So that the trainer does not wait for it.
        await _said(engine.leave_transfer())
        return error
    return None


async def _end(engine: EngineClient, version: int) -> Taken:
    try:
        await engine.finish_update(version)
        taken = await engine.taken_weights()
        await engine.leave_transfer()
    except EngineError as error:
        return error
    return taken


async def _said(asked: Any) -> EngineError | None:
    """Why it failed, if it did."""
    try:
        await asked
    except EngineError as error:
        return error
    return None
