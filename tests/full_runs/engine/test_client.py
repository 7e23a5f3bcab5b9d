"""What a client's requests look like to a server; a server of a few lines, no engine."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager

import pytest

aiohttp = pytest.importorskip("aiohttp", reason="the engine's client is not installed here")

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


def test_every_request_has_a_connection_of_its_own() -> None:
    """One that a server closes for being idle would break the request that is just written to it."""
    requests_by_connection: list[int] = []

    async def answer(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        requests_by_connection.append(0)
        while await reader.readline():
            while (await reader.readline()).strip():
                pass
            requests_by_connection[-1] += 1
            writer.write(OK)
            await writer.drain()

    async def ask() -> list[str]:
        async with asked_of(answer) as client:
            return [await client.version() for _ in range(3)]

    assert now(ask()) == ["7", "7", "7"]
    assert requests_by_connection == [1, 1, 1]


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
