"""What tests with real engines share: whether they can run, and small models to run them with."""

from __future__ import annotations

import asyncio
import contextlib
import importlib.util
import os
import subprocess
import sys
from collections.abc import Coroutine, Iterator
from pathlib import Path
from typing import Any, TypeVar

import pytest

VOCABULARY, POSITIONS = 50, 256
Returned = TypeVar("Returned")


def options() -> Any:
    """How the servers of these tests are started."""
    from full_runs.engine.launch import ServerOptions

    return ServerOptions(max_model_tokens=POSITIONS, max_requests=16, ready_timeout_s=1500.0)


def needs_engines() -> Any:
    """Marks of a module whose tests start engines."""
    lacking = importlib.util.find_spec("vllm") is None
    return [
        pytest.mark.full,
        pytest.mark.filterwarnings("default"),  # those of other people's servers and clients
        pytest.mark.skipif(lacking, reason="vLLM is not installed here: `make test-full` runs it"),
    ]


def saved_model(folder: Path, seed: int) -> Path:
    """A model with a vocabulary that is not round, and weights so large that it has opinions of its own."""
    from full_runs.tasks.tiny_model import TinyModel, made, save

    model = made(TinyModel(seed=seed), vocabulary=VOCABULARY, positions=POSITIONS)
    draw(model, seed)
    save(model, folder, vocabulary=VOCABULARY)
    return folder


def draw(model: Any, seed: int) -> None:
    """Matrices that are large enough to tell one model from another."""
    import torch

    draws = torch.Generator().manual_seed(seed)
    with torch.no_grad():
        for weight in model.parameters():
            if weight.dim() > 1:
                weight.normal_(0, 0.1, generator=draws)


async def vllm_digests(client: Any) -> dict[str, str]:
    """Of every parameter that an engine has not packed away, by vLLM itself."""
    reply = await client._ask("POST", "/weight_checker", json={"action": "checksum"})
    return dict(reply["checksums"])


async def loaded_unseen(client: Any, folder: Path) -> None:
    """The engine takes a folder's weights by vLLM's own reload, behind the back of what compares."""
    body = {"method": "reload_weights", "kwargs": {"weights_path": str(folder)}}
    await client._ask("POST", "/collective_rpc", json=body)


def off_by_one_bit(folder: Path, name: str, to: Path) -> Path:
    """A copy of a model; in one matrix, the last bit of one number is another."""
    import shutil

    import torch
    from safetensors.torch import load_file, save_file

    shutil.copytree(folder, to)
    tensors = load_file(to / "model.safetensors")
    whole = {torch.float32: torch.int32, torch.bfloat16: torch.int16}[tensors[name].dtype]
    tensors[name].view(whole)[1, 2] ^= 1
    save_file(tensors, to / "model.safetensors", metadata={"format": "pt"})
    return to


@contextlib.contextmanager
def serving(server: Any) -> Iterator[str]:
    """The address of a server that was started, once it answers; it is stopped afterwards."""
    from full_runs.engine.client import EngineClient

    async def ready() -> None:
        async with EngineClient(server.url) as client:
            await server.ready(client)

    try:
        now(ready())
        yield server.url
    finally:
        now(server.stop())


def now(coroutine: Coroutine[Any, Any, Returned]) -> Returned:
    """Its result."""
    return asyncio.run(coroutine)


def command(*words: str) -> list[str]:
    """`policylag` with these words, by the interpreter of the tests."""
    return [sys.executable, "-c", "import sys, policylag; sys.exit(policylag.main(sys.argv[1:]))", *words]


def environment(**more: str) -> dict[str, str]:
    """Of such a command: it finds the project."""
    return os.environ | {"PYTHONPATH": str(Path(__file__).parents[2])} | more


def ran(*words: str) -> subprocess.CompletedProcess[str]:
    """The command, ended."""
    return subprocess.run(command(*words), env=environment(), capture_output=True, text=True, check=False)
