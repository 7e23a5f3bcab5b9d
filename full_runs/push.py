"""How do new weights reach the engines while they decode, so that no engine ever serves a mixed set?

    check names and shapes -> all engines stand still -> each takes the weights and their version -> digests
    agree -> (keys and values are thrown away) -> all go on

Weights travel in one of two ways: from a folder (`full_runs.push_folder`), or over the wire
(`full_runs.push_wire`). An engine that fails on the way stays still and is tried again; one that fails for
good is named and never goes on, so what it holds half-way is never sampled from. Requests stay in flight
throughout.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Protocol, TypeAlias, final

import torch

from full_runs.engine import digests
from full_runs.engine.client import EngineClient, EngineError, KeysAtPush

Taken: TypeAlias = "list[dict[str, str]] | EngineError | ValueError"
"""By an engine: what each of its workers took, a digest by name; or why it did not."""


@final
@dataclass(frozen=True, slots=True, kw_only=True)
class Given:
    """What one attempt gave."""

    version: int
    sent: Mapping[str, str]
    """Digest of each tensor, by its published name."""
    taken: Sequence[Taken]
    """By each engine that was asked, in order."""


class Weights(Protocol):
    """New weights, and the way they travel."""

    async def ready(self, wanted: digests.Shapes, dtype: torch.dtype, /) -> None:
        """Look at them before an engine is touched.

        Args:
            wanted: what an engine's model has.
            dtype: that engines keep it in.

        Raises:
            ValueError: they are not this model's.
        """
        ...

    async def give(self, engines: Sequence[EngineClient], version: int) -> Given:
        """Give them to engines that stand still, and tell them the version."""
        ...


Prepare: TypeAlias = Callable[[int], Awaitable[Weights]]
"""(version that the trainer holds) -> its weights, ready to be pushed."""


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
    """Tensors that were found again, to the last bit, in what each process of an engine holds, packed copies
    of tied ones beside them; the least over engines. Experts of a mixture are looked for on a CPU alone."""


@final
@dataclass(frozen=True, slots=True, kw_only=True)
class Pusher:
    """Pushes weights to engines."""

    wanted: digests.Shapes
    """Of the model that the engines were started with."""
    keys: KeysAtPush = "recompute"
    """Running requests go on with the keys and values of the old weights, or compute them again."""
    attempts: int = 2
    dtype: torch.dtype = torch.float32
    """That engines keep weights in."""

    async def push(self, engines: Sequence[EngineClient], weights: Weights, version: int) -> Pushed:
        """Give the weights to all engines, as `version`.

        Raises:
            ValueError: the tensors are not the model's; no engine was touched.
        """
        await weights.ready(self.wanted, self.dtype)
        began_s = time.monotonic()
        found: dict[int, int] = {}
        failed: dict[int, Exception] = {}
        left, tensors = list(range(len(engines))), 0
        for _ in range(self.attempts):
            given, done = await self._attempt([engines[place] for place in left], weights, version)
            if given is not None:
                version, tensors = given.version, max(tensors, len(given.sent))
            for place, each in zip(left, done, strict=True):
                if isinstance(each, int):
                    found[place] = each
                    failed.pop(place, None)
                else:
                    failed[place] = each
            if not (left := sorted(failed)):
                break
        going_on: list[int] = []
        for place in sorted(found):
            try:
                await engines[place].resume()
                going_on.append(place)
            except EngineError as error:
                failed[place] = error
        return Pushed(
            version=version,
            engines=tuple(going_on),
            failed=tuple((place, str(why)) for place, why in sorted(failed.items())),
            stood_still_s=time.monotonic() - began_s,
            tensors=tensors,
            compared=min(found.values(), default=0),
        )

    async def _attempt(
        self, engines: Sequence[EngineClient], weights: Weights, version: int
    ) -> tuple[Given | None, list[int | Exception]]:
        """What was given, and of each engine how much of it could be compared, or why it does not hold it."""
        why_not = await asyncio.gather(*map(_stands_still, engines))
        done: list[int | Exception] = [why or 0 for why in why_not]
        still = [place for place, why in enumerate(why_not) if why is None]
        if not still:
            return None, done
        given = await weights.give([engines[place] for place in still], version)
        checked = await asyncio.gather(
            *(
                self._checked(engines[place], taken, given)
                for place, taken in zip(still, given.taken, strict=True)
            )
        )
        for place, each in zip(still, checked, strict=True):
            done[place] = each
        return given, done

    async def _checked(self, engine: EngineClient, taken: Taken, given: Given) -> int | Exception:
        """How many tensors are found again."""
        if isinstance(taken, Exception):
            return taken
        try:
            for each in taken:
                digests.check_taken(each, given.sent, engine.url)
            compared = await engine.check_held()
            if self.keys == "recompute":
                await engine.forget_keys()
        except (EngineError, ValueError) as error:
            return error
        return compared


async def _stands_still(engine: EngineClient) -> EngineError | None:
    """Why not."""
    try:
        await engine.pause()
    except EngineError as error:
        return error
    return None
