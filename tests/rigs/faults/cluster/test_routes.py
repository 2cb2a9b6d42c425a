"""Which way a route is cut, whichever of the two servers has opened it."""

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import AsyncExitStack, asynccontextmanager

import pytest

from tests.rigs.faults.cluster.routes import Routes

SHORT_S, PATIENCE_S = 0.1, 30.0
Heard = tuple[bool, bool]
Serve = Callable[[asyncio.StreamReader, asyncio.StreamWriter], Awaitable[None]]
Cut = Callable[[Routes, int], None]


@asynccontextmanager
async def three_servers() -> AsyncIterator[tuple[Routes, list[asyncio.Queue[bytes]]]]:
    """Each greets who opens a route to it; what it hears is in its queue."""
    async with AsyncExitStack() as stack:
        queues: list[asyncio.Queue[bytes]] = [asyncio.Queue() for _ in range(3)]
        servers = [await asyncio.start_server(_greeting(queue), "127.0.0.1", 0) for queue in queues]
        for server in servers:
            stack.callback(server.close)
        routes = Routes([server.sockets[0].getsockname()[1] for server in servers])
        await routes.start()
        stack.push_async_callback(routes.close)
        yield routes, queues


def _greeting(queue: asyncio.Queue[bytes]) -> Serve:
    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        writer.write(b"INFO")
        while data := await reader.read(100):
            queue.put_nowait(data)
        writer.close()

    return serve


async def _check(
    routes: Routes, queue: asyncio.Queue[bytes], opener: int, place: int, expected: Heard
) -> None:
    """Whether the server that opens a route hears the other one, and is heard by it."""
    port = int(routes.urls_of(opener)[place].rpartition(":")[2])
    reader, writer = await asyncio.open_connection("127.0.0.1", port)
    writer.write(b"CONNECT")
    for data, is_expected in zip((reader.read(100), queue.get()), expected, strict=True):
        assert await _comes(data, PATIENCE_S if is_expected else SHORT_S) == is_expected
    writer.close()


async def _comes(data: Awaitable[bytes], within_s: float) -> bool:
    try:
        async with asyncio.timeout(within_s):
            return bool(await data)
    except TimeoutError:
        return False


@pytest.mark.parametrize(
    ("cut", "to_server_1", "from_server_1"),
    [
        (Routes.isolate, (False, False), (False, False)),
        (Routes.mute, (False, True), (True, False)),
        (Routes.deafen, (True, False), (False, True)),
    ],
)
async def test_a_server_is_cut_off_from_its_peers(
    cut: Cut, to_server_1: Heard, from_server_1: Heard
) -> None:
    async with three_servers() as (routes, queues):
        cut(routes, 1)
        await _check(routes, queues[1], 0, 0, to_server_1)
        await _check(routes, queues[0], 1, 0, from_server_1)
        await _check(routes, queues[2], 0, 1, (True, True))


async def test_mended_routes_pass_everything() -> None:
    async with three_servers() as (routes, queues):
        routes.isolate(1)
        routes.mend()
        await _check(routes, queues[1], 0, 0, (True, True))
