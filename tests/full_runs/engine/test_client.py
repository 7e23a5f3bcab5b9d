"""What a client's requests look like to a server; a server of a few lines, no engine."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager

import pytest

aiohttp = pytest.importorskip("aiohttp", reason="the engine's client is not installed here")

from full_runs.engine import client as client_of_engine  # noqa: E402
from full_runs.engine.client import EngineClient, EngineError, EngineGoneError  # noqa: E402
from tests.full_runs.real import now  # noqa: E402

pytestmark = pytest.mark.filterwarnings("default")
OK = (
    b"HTTP/1.1 200 OK\r\nContent-Type: application/json\r\nContent-Length: 23\r\n\r\n"
    + b'{"weight_version": "7"}'
)
REFUSED = b"HTTP/1.1 400 Bad Request\r\nContent-Length: 8\r\n\r\ntoo long"


Handler = Callable[[asyncio.StreamReader, asyncio.StreamWriter], Awaitable[None]]


@asynccontextmanager
async def asked_of(handle: Handler) -> AsyncIterator[EngineClient]:
    """A client of a server that answers like this; all connections have been closed in the end."""
    served: list[asyncio.Task[None]] = []

    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        task = asyncio.current_task()
        assert task is not None
        served.append(task)
        await handle(reader, writer)
        writer.close()
        await writer.wait_closed()

    server = await asyncio.start_server(serve, "127.0.0.1", 0)
    port = server.sockets[0].getsockname()[1]
    async with server:
        async with EngineClient(f"http://127.0.0.1:{port}") as client:
            yield client
        await asyncio.gather(*served)


def answered(monkeypatch: pytest.MonkeyPatch, *, kept_s: float, pause_s: float) -> list[int]:
    """Requests of each connection, of three requests with a pause after each."""
    monkeypatch.setattr(client_of_engine, "KEPT_S", kept_s)
    requests_by_connection: list[int] = []

    async def answer(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        own = len(requests_by_connection)
        requests_by_connection.append(0)
        while await reader.readline():
            while (await reader.readline()).strip():
                pass
            requests_by_connection[own] += 1
            writer.write(OK)
            await writer.drain()

    async def ask() -> None:
        async with asked_of(answer) as client:
            for _ in range(3):
                assert await client.version() == "7"
                await asyncio.sleep(pause_s)

    now(ask())
    return requests_by_connection


def test_a_connection_serves_one_request_after_another(monkeypatch: pytest.MonkeyPatch) -> None:
    assert answered(monkeypatch, kept_s=60.0, pause_s=0.0) == [3]


def test_one_that_was_idle_is_not_used_again(monkeypatch: pytest.MonkeyPatch) -> None:
    """A server that closes it for being idle would break the request that is just written to it."""
    assert answered(monkeypatch, kept_s=0.01, pause_s=0.05) == [1, 1, 1]


def test_a_server_keeps_an_idle_connection_for_longer_than_a_client_uses_it() -> None:
    pytest.importorskip("vllm", reason="no engine is installed here")
    from vllm import envs

    assert 2 * client_of_engine.KEPT_S < envs.VLLM_HTTP_TIMEOUT_KEEP_ALIVE


@pytest.mark.parametrize(
    ("said", "error", "why"),
    [(REFUSED, EngineError, "answered 400: too long"), (b"", EngineGoneError, "does not answer")],
    ids=["refuses", "hangs up"],
)
def test_one_that_refuses_is_told_from_one_that_hangs_up(
    said: bytes, error: type[Exception], why: str
) -> None:
    async def answer(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        while (await reader.readline()).strip():
            pass
        writer.write(said)

    async def ask() -> None:
        async with asked_of(answer) as client:
            await client.version()

    with pytest.raises(error, match=why) as raised:
        now(ask())
    assert type(raised.value) is error
