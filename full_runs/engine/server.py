"""When is a vLLM server ready that was started here, and what does one see when it dies?"""

from __future__ import annotations

import asyncio
import contextlib
import os
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Mapping
from pathlib import Path
from typing import Final, final

from full_runs.engine.client import EngineClient
from full_runs.engine.launch import HOST, ServerOptions, command, environment

_TAIL_LINES: Final = 25


def free_port() -> int:
    """A port that nobody listened on a moment ago."""
    with socket.socket() as probe:
        probe.bind((HOST, 0))
        return int(probe.getsockname()[1])


class ServerDiedError(RuntimeError):
    """The server ended, or was not ready in time; the message holds the end of its log."""


@final
class Server:
    """A server process.

    Args:
        model: Hugging Face folder whose weights it starts with.
        log: what it prints goes there.
        options: of its start.
    """

    api_key: str | None = None
    """Nobody else reaches it."""
    holds_model = True
    """That it was started with."""
    again = "started again"

    def __init__(self, model: Path, *, log: Path, options: ServerOptions) -> None:
        self.options = options
        self.log = log
        self.port = free_port()
        self.url = f"http://{HOST}:{self.port}"
        log.parent.mkdir(parents=True, exist_ok=True)
        tether = [sys.executable, "-m", "full_runs.engine.tether", str(os.getpid())]
        with log.open("ab") as file:
            self.process = subprocess.Popen(
                [*tether, *command(model, self.port, options)],
                stdout=file,
                stderr=subprocess.STDOUT,
                stdin=subprocess.DEVNULL,
                env=os.environ | _search_path() | environment(options, os.environ),
                start_new_session=True,  # so that it can be ended with all its workers
            )

    @property
    def is_alive(self) -> bool:
        return self.process.poll() is None

    async def ready(self, client: EngineClient) -> None:
        """Wait until it answers.

        Raises:
            ServerDiedError: it ended, or the time is up.
            ValueError: it lacks what a run needs.
        """
        end_s = time.monotonic() + self.options.ready_timeout_s
        while not await client.is_healthy():
            if not self.is_alive:
                raise ServerDiedError(
                    f"the engine ended with status {self.process.returncode}: {self.tail()}"
                )
            if time.monotonic() > end_s:
                await self.stop()
                raise ServerDiedError(
                    f"the engine was not ready in {self.options.ready_timeout_s:.0f} s: {self.tail()}"
                )
            await asyncio.sleep(0.5)
        await client.check()

    def tail(self) -> str:
        """The end of its log."""
        lines = self.log.read_text(encoding="utf-8", errors="replace").splitlines()
        return "\n".join([f"end of {self.log}", *lines[-_TAIL_LINES:]])

    def kill(self) -> None:
        """End it and all its workers at once."""
        with contextlib.suppress(ProcessLookupError):
            os.killpg(self.process.pid, signal.SIGKILL)

    async def stop(self, patience_s: float = 5.0) -> None:
        """Ask it to end, then end it; its workers too."""
        if self.is_alive:
            self.process.terminate()
            with contextlib.suppress(subprocess.TimeoutExpired):
                await asyncio.to_thread(self.process.wait, patience_s)
        self.kill()
        await asyncio.to_thread(self.process.wait)


def _search_path() -> Mapping[str, str]:
    """A child finds this package where this process found it."""
    ours = str(Path(__file__).resolve().parents[2])
    return {"PYTHONPATH": os.pathsep.join([ours, *filter(None, [os.environ.get("PYTHONPATH")])])}
