"""Which engines are there, which of them is asked next, and what becomes of one that dies?"""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import final

from full_runs.engine.client import EngineClient, EngineError
from full_runs.engine.server import Server, ServerDiedError, ServerOptions
from full_runs.push import Pushed, Pusher


class NoEngineError(RuntimeError):
    """None is left."""


@final
@dataclass(slots=True)
class Engine:
    """One server and what is known of it."""

    place: int
    server: Server
    client: EngineClient
    serves: bool = False
    """It holds weights with a version and takes requests."""
    restarts: int = 0
    out: str | None = None
    """Why it was taken out for good."""
    busy: set[int] = field(default_factory=set)
    """Slots in use."""

    def free_slot(self) -> int:
        """The lowest slot that is not in use."""
        return next(slot for slot in range(len(self.busy) + 1) if slot not in self.busy)


@final
class Engines:
    """All engines of a run.

    Args:
        count: servers to start.
        model: weights that every server starts with, version 0. Newer ones are pushed to it: their folders
            come and go.
        folder: for their logs.
        options: of their start.
        pusher: how weights reach them.
        most_restarts: of one engine, then it is taken out.
        slots: of each engine.
        note: told what went wrong, in words.
        changed: called when an engine comes or goes.
    """

    def __init__(
        self,
        count: int,
        *,
        model: Path,
        folder: Path,
        options: ServerOptions,
        pusher: Pusher,
        most_restarts: int,
        slots: int,
        note: Callable[[str], None],
        changed: Callable[[], None],
    ) -> None:
        self.folder = folder
        self.options = options
        self.pusher = pusher
        self.most_restarts = most_restarts
        self.slots = slots
        self.note = note
        self.changed = changed
        self.model = model
        self.weights, self.version = model, 0
        """The newest that were pushed."""
        self._pushing = asyncio.Lock()
        self._again: set[asyncio.Task[None]] = set()
        self.all = [self._new(place) for place in range(count)]

    async def start(self, weights: Path | None = None, version: int = 0) -> None:
        """Wait until all serve this version; none other than 0 needs no weights.

        Raises:
            ServerDiedError: one does not come up; its log's end is in the message.
            ValueError: one lacks what a run needs.
        """
        self.weights, self.version = weights or self.model, version
        await asyncio.gather(*(self._bring_up(engine) for engine in self.all))

    def serving(self) -> list[Engine]:
        """Those that hold weights with a version and take requests."""
        return [engine for engine in self.all if engine.serves]

    def choose(self) -> Engine | None:
        """The engine with the fewest rollouts, if one has room."""
        roomy = [engine for engine in self.serving() if len(engine.busy) < self.slots]
        return min(roomy, key=lambda engine: len(engine.busy), default=None)

    def is_left(self) -> bool:
        return any(engine.out is None for engine in self.all)

    async def push(self, folder: Path, version: int) -> Pushed:
        """New weights to all that serve; one that fails is killed, and started again with the new ones.

        Raises:
            ValueError: the weights are not the model's.
            NoEngineError: no engine took them, and none can be started again.
        """
        async with self._pushing:
            serving = self.serving()
            pushed = await self.pusher.push([engine.client for engine in serving], folder, version)
            self.weights, self.version = folder, version
            for place, why in pushed.failed:
                self.lost(serving[place], f"push of version {version}: {why}")
        if not self.is_left():
            raise NoEngineError(f"no engine took version {version}: {dict(pushed.failed)}")
        return pushed

    def lost(self, engine: Engine, why: str) -> None:
        """It does not answer, or holds who knows what: kill it, start another in its place or take it out."""
        if not engine.serves:
            return  # known already
        engine.serves = False
        engine.server.kill()
        self.changed()
        if engine.restarts >= self.most_restarts:
            engine.out = why
            self.note(f"engine {engine.place} is taken out after {engine.restarts} restarts: {why}")
            return
        engine.restarts += 1
        self.note(f"engine {engine.place} is started again: {why}")
        task = asyncio.create_task(self._replace(engine))
        self._again.add(task)
        task.add_done_callback(self._again.discard)

    async def close(self) -> None:
        """End all of them."""
        for task in list(self._again):
            task.cancel()
            with contextlib.suppress(asyncio.CancelledError):
                await task
        await asyncio.gather(*(engine.server.stop() for engine in self.all))
        await asyncio.gather(*(engine.client.close() for engine in self.all))

    def _new(self, place: int) -> Engine:
        server = Server(self.model, log=self.folder / f"engine-{place}.log", options=self.options)
        return Engine(place, server, EngineClient(server.url))

    async def _bring_up(self, engine: Engine) -> None:
        await engine.server.ready(engine.client)
        await engine.client.check()
        async with self._pushing:  # no push passes it by
            if self.version:
                one = await self.pusher.push([engine.client], self.weights, self.version)
                if one.failed:
                    raise ServerDiedError(one.failed[0][1])
            else:
                await engine.client.set_version(0)
            engine.serves = True
        self.changed()

    async def _replace(self, engine: Engine) -> None:
        await engine.server.stop()
        await engine.client.close()
        fresh = self._new(engine.place)
        engine.server, engine.client = fresh.server, fresh.client
        try:
            await self._bring_up(engine)
        except (ServerDiedError, EngineError, ValueError) as error:
            engine.serves = True  # so that it counts as lost once more
            self.lost(engine, f"it did not come up: {error}")
