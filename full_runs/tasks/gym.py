"""How are reasoning-gym's problems asked and judged? In a process of its own: its code is not ours.

reasoning-gym makes each problem from its number, so none has to be kept. The extra is `reasoning-gym`.

References:
    https://arxiv.org/abs/2505.24760
"""

from __future__ import annotations

import asyncio
import importlib.util
import json
import sys
from asyncio.subprocess import PIPE, Process
from collections.abc import Mapping
from pathlib import Path
from typing import Any, Final, final

from full_runs.tasks.answers import Fallback, answer_of

_WORKER: Final = str(Path(__file__).with_name("gym_worker.py"))
_LINE_BYTES: Final = 1 << 26


class GymError(RuntimeError):
    """A problem could not be made or judged."""


@final
class ReasoningGym:
    """A source of one data set's problems. Scores are its own, from 0 to 1.

    Args:
        dataset: its name there.
        settings: of its configuration, the seed aside.
        seed: problems of two seeds differ.
        fallback: of a response in which nothing is boxed.
        seconds: that making or judging one problem may take; then its process is started anew.

    Raises:
        ImportError: reasoning-gym is not installed.
    """

    def __init__(
        self,
        dataset: str,
        settings: Mapping[str, Any],
        *,
        seed: int,
        fallback: Fallback,
        seconds: float = 30.0,
    ) -> None:
        if importlib.util.find_spec("reasoning_gym") is None:
            raise ImportError("it needs the extra reasoning-gym: pip install 'policylag[reasoning-gym]'")
        self._told = {"dataset": dataset, "settings": dict(settings), "seed": seed}
        self._fallback: Fallback = fallback
        self._seconds = seconds
        self._process: Process | None = None
        self._turn = asyncio.Lock()

    async def question(self, prompt_id: int, /) -> str:
        """Its text.

        Raises:
            GymError: there is no such data set, a setting is wrong, or it failed.
        """
        return str(await self._asked({"question": prompt_id}))

    async def reward(self, prompt_id: int, response: str, /) -> float:
        """The data set's own score of the answer in a response; 0 without one.

        Raises:
            GymError: it failed.
        """
        answer = answer_of(response, self._fallback)
        if answer is None:
            return 0.0
        return float(await self._asked({"score": prompt_id, "answer": answer}))

    async def close(self) -> None:
        """End its process."""
        process, self._process = self._process, None
        if process is not None:
            if process.returncode is None:
                process.kill()
            await process.communicate()

    async def _asked(self, question: Mapping[str, Any]) -> Any:
        async with self._turn:
            try:
                async with asyncio.timeout(self._seconds):
                    process = await self._ready()
                    return await _answered(process, question)
            except TimeoutError:
                await self.close()
                raise GymError(f"reasoning_gym: no answer in {self._seconds:g} s to {question}") from None
            except BaseException as error:
                # Whoever was given up in the middle leaves an answer that nobody waits for.
                if not isinstance(error, GymError):
                    await self.close()
                raise

    async def _ready(self) -> Process:
        if self._process is None or self._process.returncode is not None:
            self._process = await asyncio.create_subprocess_exec(
                # -P: our modules beside the worker's do not hide others of their names.
                sys.executable, "-P", _WORKER, json.dumps(self._told),
                stdin=PIPE, stdout=PIPE, limit=_LINE_BYTES,
            )  # fmt: skip
        return self._process


async def _answered(process: Process, question: Mapping[str, Any]) -> Any:
    assert process.stdin is not None
    assert process.stdout is not None
    try:
        process.stdin.write(json.dumps(question).encode() + b"\n")
        await process.stdin.drain()
        line = await process.stdout.readline()
    except (ConnectionError, ValueError) as error:
        raise GymError(f"reasoning_gym's process: {error}") from None
    if not line:
        await process.wait()
        raise GymError(f"reasoning_gym's process ended with status {process.returncode}")
    answer = json.loads(line)
    if "failed" in answer:
        raise GymError(f"reasoning_gym: {answer['failed']}")
    return answer["is"]
