"""What plays a verifiers environment, in its process: JSON lines on stdin, JSON lines on stdout.

The environment's own rollout loop runs here, with a client that asks for each of the model's turns through
the pipe; then its rubric scores. Any number of rollouts are under way at once. Nothing of ours is imported:
the interpreter is whichever the user has put verifiers into.

Versions 0.1.14 to 0.3 have `load_environment` and clients that can be passed in; 0.4 has neither.
"""

from __future__ import annotations

import asyncio
import ctypes
import json
import os
import signal
import sys
import time
from collections.abc import Callable, Mapping
from functools import partial
from importlib.metadata import PackageNotFoundError, version
from typing import Any, Final

_DIE_WITH_PARENT: Final = 1
Say = Callable[[Mapping[str, Any]], None]


def main(told: Mapping[str, Any]) -> None:
    """Load the environment, say what it is, and serve until stdin closes."""
    if sys.platform == "linux":  # whatever it is doing, it ends with whoever started it
        ctypes.CDLL(None).prctl(_DIE_WITH_PARENT, signal.SIGKILL)
    # Only our lines pass through the pipes, whatever the environment reads and prints.
    questions, answers = os.dup(0), os.dup(1)
    os.dup2(os.open(os.devnull, os.O_RDONLY), 0)
    os.dup2(2, 1)

    def say(fact: Mapping[str, Any]) -> None:
        line = json.dumps(fact).encode() + b"\n"
        while line:
            line = line[os.write(answers, line) :]

    try:
        environment = loaded(told["id"], told["args"])
        sizes = dict(zip(("trained", "held_out"), map(_size, rows(environment)), strict=True))
    except BaseException as error:  # of foreign code, which may even exit
        say({"refused": f"{type(error).__name__}: {error}"})
        return
    say({"ready": {"class": type(environment).__name__, "version": version("verifiers"), **sizes}})
    if not told.get("only_describe"):
        asyncio.run(serve(environment, questions, say))


def loaded(name: str, args: Mapping[str, Any]) -> Any:
    """The environment.

    Raises:
        TypeError: it cannot be played one rollout at a time, turn by turn.
        ImportError: there is no verifiers, or one with another interface.
    """
    try:
        has = f"{sys.executable} has verifiers {version('verifiers')}"
    except PackageNotFoundError:
        raise ImportError(f"{sys.executable} has no verifiers") from None
    try:
        from verifiers import MultiTurnEnv, load_environment
        from verifiers.clients import Client  # noqa: F401

        _ = MultiTurnEnv.requires_group_rollouts
    except (ImportError, AttributeError) as error:
        why = f"{error.__cause__ or error}"
        raise ImportError(
            f"{has}; 0.1.14 to 0.3 are played, which have load_environment; 0.4 has none ({why})"
        ) from None
    environment = load_environment(name, **args)
    kinds = [kind.__name__ for kind in type(environment).__mro__]
    if not isinstance(environment, MultiTurnEnv):
        raise TypeError(f"{kinds[0]} is played by no turns: only kinds of MultiTurnEnv are")
    if "CliAgentEnv" in kinds:
        raise TypeError(f"{kinds[0]} is a CliAgentEnv: its program talks to a model by itself")
    if environment.message_type != "chat":
        raise TypeError(f"{kinds[0]} wants message_type {environment.message_type!r}, and chat is played")
    if environment.requires_group_rollouts:
        raise TypeError(f"{kinds[0]} rewards groups; rollouts are scored one by one")
    return environment


def rows(environment: Any) -> tuple[Any, Any]:
    """Its two datasets; None where it has none."""
    environment.build_dataset()
    environment.build_eval_dataset()
    return environment.dataset, environment.eval_dataset


def _size(dataset: Any) -> int | None:
    return None if dataset is None else len(dataset)


async def serve(environment: Any, questions: int, say: Say) -> None:
    """Rollouts by number, each a task of its own."""
    loop = asyncio.get_running_loop()
    reader = asyncio.StreamReader(limit=1 << 26)
    await loop.connect_read_pipe(lambda: asyncio.StreamReaderProtocol(reader), os.fdopen(questions, "rb"))
    client_of = client_class()
    tasks: dict[int, asyncio.Task[None]] = {}
    clients: dict[int, Any] = {}
    while line := await reader.readline():
        asked = json.loads(line)
        number = asked.get("rollout")
        if "open" in asked:
            clients[number] = client_of(number, say)
            tasks[number] = asyncio.create_task(rollout(environment, asked, clients[number], say))
            tasks[number].add_done_callback(partial(_forget, number, (tasks, clients)))
        elif "said" in asked and number in clients:
            clients[number].answers.put_nowait(asked["said"])
        elif "close" in asked and number in tasks:
            tasks[number].cancel()
        elif "ping" in asked:
            say({"pong": asked["ping"]})
    for task in tasks.values():
        task.cancel()
    await asyncio.gather(*tasks.values(), return_exceptions=True)


def _forget(number: int, kept: tuple[dict[int, Any], ...], _: object) -> None:
    for each in kept:
        del each[number]


async def rollout(environment: Any, asked: Mapping[str, Any], client: Any, say: Say) -> None:
    """One, by the environment's own loop and rubric."""
    try:
        row = rows(environment)[asked["open"] == "held_out"][asked["row"]]
        state = await environment.rollout(dict(row), client, "policy", {})
        if (error := state.get("error")) is not None:
            raise error
        await environment.rubric.score_rollout(state)
        if hasattr(environment.rubric, "cleanup"):
            await environment.rubric.cleanup(state)
        why = state.get("stop_condition")
        say({"rollout": client.number, "reward": float(state["reward"]), "stopped": why})
    except asyncio.CancelledError:
        raise
    except BaseException as error:  # of foreign code, whatever it is
        causes = [error]
        while (cause := causes[-1].__cause__ or causes[-1].__context__) and len(causes) < 5:
            causes.append(cause)
        words = ", from ".join(f"{type(one).__name__}: {one}" for one in causes)
        say({"rollout": client.number, "failed": words})


def client_class() -> Any:
    """A client of this process's verifiers whose model is at the other end of the pipe."""
    from verifiers.clients import Client
    from verifiers.types import Response, ResponseMessage, ToolCall, Usage

    class Piped(Client):  # type: ignore[misc, valid-type, unused-ignore]
        def __init__(self, number: int, say: Say) -> None:
            super().__init__(object())
            self.number, self.say = number, say
            self.answers: asyncio.Queue[dict[str, Any]] = asyncio.Queue()

        async def get_response(
            self,
            prompt: Any,
            model: str,
            sampling_args: Any,  # noqa: ARG002
            tools: Any = None,
            **_: Any,
        ) -> Any:
            asked = {
                "messages": [plain(one) for one in prompt],
                "tools": [plain(tool) for tool in tools or ()],
            }
            self.say({"rollout": self.number, **asked})
            said = await self.answers.get()
            calls = [ToolCall(**call) for call in said["tool_calls"]]
            before, after = said["prompt_tokens"], said["tokens"]
            usage = Usage(
                prompt_tokens=before, completion_tokens=after, reasoning_tokens=0, total_tokens=before + after
            )
            message = ResponseMessage(
                content=said["text"],
                tool_calls=calls or None,
                finish_reason="tool_calls" if calls else "stop",
                is_truncated=False,
            )
            return Response(id="turn", created=int(time.time()), model=model, usage=usage, message=message)

        async def close(self) -> None:
            pass

        def setup_client(self, config: Any) -> Any:
            raise NotImplementedError

        async def to_native_tool(self, tool: Any) -> Any:
            raise NotImplementedError

        async def to_native_prompt(self, messages: Any) -> Any:
            raise NotImplementedError

        async def get_native_response(self, *_: Any, **__: Any) -> Any:
            raise NotImplementedError

        async def raise_from_native_response(self, response: Any) -> None:
            raise NotImplementedError

        async def from_native_response(self, response: Any) -> Any:
            raise NotImplementedError

    return Piped


def plain(record: Any) -> dict[str, Any]:
    """A message or a tool as JSON knows it."""
    return dict(
        record.model_dump(mode="json", exclude_none=True) if hasattr(record, "model_dump") else record
    )


if __name__ == "__main__":
    main(json.loads(sys.argv[1]))
