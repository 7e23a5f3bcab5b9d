"""Which engines are there, which of them is asked next, and what becomes of one that dies?"""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Protocol, final

from full_runs.engine.client import EngineClient, EngineError
from full_runs.engine.server import ServerDiedError
from full_runs.push import Pushed, Pusher, Weights


class NoEngineError(RuntimeError):
    """None is left."""


class Server(Protocol):
    """A process of ours, or one that somebody else started."""

    @property
    def url(self) -> str: ...

    @property
    def api_key(self) -> str | None: ...

    @property
    def holds_model(self) -> bool:
        """It holds the starting weights once it is ready."""
        ...

    @property
    def again(self) -> str:
        """What is done when it fails: "it is ..."."""
        ...

    async def ready(self, client: EngineClient, /) -> None:
        """Wait until it can be used; raises ServerDiedError or ValueError."""
        ...

    def kill(self) -> None: ...

    async def stop(self) -> None: ...


Start = Callable[[], Server]


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
        starts: each starts a server, or finds one that runs, and does so again when it failed.
        weights: the first, version 0.
        pusher: how weights reach them.
        most_restarts: of one engine, then it is taken out.
        slots: of each engine.
        note: told what went wrong, in words.
        changed: called when an engine comes or goes.
    """

    def __init__(
        self,
        starts: Sequence[Start],
        *,
        weights: Weights,
        pusher: Pusher,
        most_restarts: int,
        slots: int,
        note: Callable[[str], None],
        changed: Callable[[], None],
    ) -> None:
        self.starts = starts
        self.pusher = pusher
        self.most_restarts = most_restarts
        self.slots = slots
        self.note = note
        self.changed = changed
        self.weights, self.version = weights, 0
        """The newest that were pushed."""
        self._pushing = asyncio.Lock()
        self._again: set[asyncio.Task[None]] = set()
        self.crashed: BaseException | None = None
        """What else went wrong as an engine was brought back, such as a trainer that ended; the run ends."""
        self.all = [self._new(place) for place in range(len(starts))]

    async def start(self, weights: Weights | None = None, version: int = 0) -> None:
        """Wait until all serve this version; none other than 0 needs no weights.

        Raises:
            ServerDiedError: one does not come up; its log's end is in the message.
            ValueError: one lacks what a run needs.
        """
        self.weights, self.version = weights or self.weights, version
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

    async def push(self, weights: Weights, version: int) -> Pushed:
        """New weights to all that serve; one that fails is killed, and started again with the new ones.

        Raises:
            ValueError: the weights are not the model's.
            NoEngineError: no engine took them, and none can be started again.
        """
        async with self._pushing:
            serving = self.serving()
            pushed = await self.pusher.push([engine.client for engine in serving], weights, version)
            self.weights, self.version = weights, version
            for place, why in pushed.failed:
                self.lost(serving[place], f"push of version {version}: {why}")
        if not self.is_left():
            raise NoEngineError(f"no engine took version {version}: {dict(pushed.failed)}")
        return pushed

    def lost(self, engine: Engine, why: str) -> None:
        """It does not answer, or holds who knows what: end it, start another in its place or take it out."""
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
        self.note(f"engine {engine.place} is {engine.server.again}: {why}")
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
        server = self.starts[place]()
        return Engine(place, server, EngineClient(server.url, api_key=server.api_key))

    async def _bring_up(self, engine: Engine) -> None:
        await engine.server.ready(engine.client)
        async with self._pushing:  # no push passes it by
            if self.version or not engine.server.holds_model:
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
        except Exception as error:
            self.crashed = error
            self.changed()
