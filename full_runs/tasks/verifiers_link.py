"""How does one talk to the processes that play verifiers environments? JSON lines through pipes.

*Choices*: one that does not answer at all is ended, and what it played has failed; the next rollout starts
another. Each line has at most 64 MiB.

References:
    https://github.com/PrimeIntellect-ai/verifiers
"""

from __future__ import annotations

import asyncio
import contextlib
import json
from asyncio.subprocess import PIPE, Process
from collections.abc import Mapping
from typing import Any, Final, final

from full_runs.tasks.verifiers_environment import VerifiersEnvironment, VerifiersError, ready

_LINE_BYTES: Final = 1 << 26
_ANSWER_S: Final = 10.0
"""A process that answers nothing for so long stands still: its rollouts share one event loop."""
_END_S: Final = 5.0
"""For it to tear down what its environment holds."""


@final
class Link:
    """One process, started when it is first needed, and again when it has ended.

    Args:
        environment: what it plays.
    """

    def __init__(self, environment: VerifiersEnvironment) -> None:
        self._environment = environment
        self._process: Process | None = None
        self._reading: asyncio.Task[None] | None = None
        self._starting = asyncio.Lock()
        self._waiting: dict[int, asyncio.Future[Mapping[str, Any]]] = {}
        self._checks: set[asyncio.Task[None]] = set()
        self.rollouts: set[int] = set()

    async def open(self, rollout: int, *, split: str, row: int) -> Mapping[str, Any]:
        """The first turn of a rollout of a dataset's row."""
        self.rollouts.add(rollout)
        # Whoever gives up waiting does not end a process that others wait for.
        await asyncio.shield(asyncio.ensure_future(self._ready()))
        self.rollouts.add(rollout)  # a process that had to be started anew knew of none
        return await self._asked(rollout, {"open": split, "row": row})

    async def said(self, rollout: int, answer: Mapping[str, Any]) -> Mapping[str, Any]:
        """What follows the model's turn: the next, or a reward."""
        return await self._asked(rollout, {"said": answer})

    def forget(self, rollout: int) -> None:
        """A rollout is over, for whatever reason."""
        if rollout in self.rollouts:
            self.rollouts.discard(rollout)
            with contextlib.suppress(VerifiersError):
                self._send({"rollout": rollout, "close": True})

    async def close(self) -> None:
        """End the process; it is given a moment to tear down."""
        for check in self._checks:
            check.cancel()
        if (process := self._process) is None:
            return
        assert process.stdin is not None
        process.stdin.close()
        with contextlib.suppress(TimeoutError):
            await asyncio.wait_for(process.wait(), _END_S)
        await self._end()

    async def _asked(self, rollout: int, what: Mapping[str, Any]) -> Mapping[str, Any]:
        future = self._waiting[rollout] = asyncio.get_running_loop().create_future()
        try:
            self._send({"rollout": rollout, **what})
            answer: Mapping[str, Any] = await future
        except asyncio.CancelledError:
            # Whoever waited gave up: for a slow tool, or because all of the process stands still.
            self.forget(rollout)
            self._check()
            raise
        finally:
            self._waiting.pop(rollout, None)
        if "failed" in answer:
            raise VerifiersError(f"{self._environment.name}: {answer['failed']}")
        return answer

    def _runs(self) -> bool:
        """Its last line has not come yet; it ends a moment after that."""
        return self._process is not None and self._reading is not None and not self._reading.done()

    def _send(self, fact: Mapping[str, Any]) -> None:
        if self._process is None or not self._runs():
            raise VerifiersError(f"{self._environment.name}: its process has ended")
        assert self._process.stdin is not None
        self._process.stdin.write(json.dumps(fact).encode() + b"\n")

    async def _ready(self) -> None:
        async with self._starting:
            if self._runs():
                return
            await self._end()
            self._process = process = await asyncio.create_subprocess_exec(
                *self._environment.command(), env=self._environment.environ(), stdin=PIPE, stdout=PIPE,
                limit=_LINE_BYTES, start_new_session=True,
            )  # fmt: skip
            assert process.stdout is not None
            try:
                line = await asyncio.wait_for(process.stdout.readline(), self._environment.load_s)
                if not line:
                    raise VerifiersError(f"{self._environment.name}: its process ended while it was loaded")
                ready(json.loads(line), self._environment)
            except BaseException as error:
                await self._end()
                if isinstance(error, TimeoutError):
                    why = f"{self._environment.name} was not loaded in {self._environment.load_s:g} s"
                    raise VerifiersError(why) from None
                raise
            self._reading = asyncio.create_task(self._read(process))

    async def _read(self, process: Process) -> None:
        assert process.stdout is not None
        why = "its process ended"
        try:
            while line := await process.stdout.readline():
                said = json.loads(line)
                place = -1 if "pong" in said else said["rollout"]
                if (future := self._waiting.get(place)) is not None and not future.done():
                    future.set_result(said)
        except ValueError as error:  # too long a line, or no JSON
            why = f"its process: {error}"
            process.kill()
        for future in self._waiting.values():
            if not future.done():
                future.set_result({"failed": why})
        self.rollouts.clear()

    def _check(self) -> None:
        if not self._checks:
            task = asyncio.create_task(self._is_alive())
            self._checks.add(task)
            task.add_done_callback(self._checks.discard)

    async def _is_alive(self) -> None:
        process = self._process
        if process is None or process.returncode is not None:
            return
        try:
            await asyncio.wait_for(self._asked_for_a_sign(), _ANSWER_S)
        except (TimeoutError, VerifiersError):
            if process.returncode is None:
                process.kill()

    async def _asked_for_a_sign(self) -> None:
        future = self._waiting[-1] = asyncio.get_running_loop().create_future()
        try:
            self._send({"ping": 1})
            await future
        finally:
            self._waiting.pop(-1, None)

    async def _end(self) -> None:
        process, self._process = self._process, None
        if process is not None:
            if process.returncode is None:
                process.kill()
            await process.wait()
        if self._reading is not None:
            reading, self._reading = self._reading, None
            await reading
