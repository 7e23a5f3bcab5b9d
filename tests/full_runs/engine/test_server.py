"""What one sees when a server dies. No engine comes up here."""

from __future__ import annotations

import importlib.util
import os
import subprocess
import sys
import time
from pathlib import Path

import pytest

aiohttp = pytest.importorskip("aiohttp", reason="the engine's client is not installed here")

from full_runs.engine.client import EngineClient, EngineGoneError  # noqa: E402
from full_runs.engine.launch import ServerOptions  # noqa: E402
from full_runs.engine.server import Server, ServerDiedError, free_port  # noqa: E402
from tests.full_runs.real import now  # noqa: E402

pytestmark = pytest.mark.filterwarnings("default")


def test_an_engine_that_is_not_there_is_gone_and_not_healthy() -> None:
    async def ask() -> bool:
        async with EngineClient(f"http://127.0.0.1:{free_port()}") as client:
            with pytest.raises(EngineGoneError, match="/weight_info does not answer"):
                await client.version()
            return await client.is_healthy()

    assert now(ask()) is False


@pytest.mark.full
@pytest.mark.skipif(importlib.util.find_spec("vllm") is None, reason="vLLM is not installed here")
def test_a_server_that_dies_says_why(tmp_path: Path) -> None:
    async def ask() -> None:
        server = Server(
            tmp_path / "no-such-model", log=tmp_path / "log.txt", options=ServerOptions(max_model_tokens=64)
        )
        async with EngineClient(server.url) as client:
            with pytest.raises(ServerDiedError, match="no-such-model"):
                await server.ready(client)

    now(ask())


@pytest.mark.skipif(sys.platform != "linux", reason="only Linux ties a process to its parent")
def test_a_tethered_process_ends_with_its_parent(tmp_path: Path) -> None:
    told = tmp_path / "pid"
    child = f"import os, time; open({str(told)!r}, 'w').write(str(os.getpid())); time.sleep(60)"
    parent = (
        "import os, subprocess, sys, time\n"
        "subprocess.Popen([sys.executable, '-m', 'full_runs.engine.tether', str(os.getpid()),"
        f" sys.executable, '-c', {child!r}])\n"
        "time.sleep(60)"
    )
    held = subprocess.Popen([sys.executable, "-c", parent])
    while not (told.exists() and told.read_text()):
        time.sleep(0.02)
    held.kill()
    held.wait()
    # It becomes a zombie of whoever adopts it, or is gone.
    stat = Path("/proc") / told.read_text() / "stat"
    while stat.exists() and stat.read_text().rsplit(")", 1)[1].split()[0] != "Z":
        time.sleep(0.02)
    assert os.getpid() != int(told.read_text())
