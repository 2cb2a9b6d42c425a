"""The network's faults, on a real connection to a server that answers what it is told."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import pytest

from tests.support.proxy import BOTH, FROM_SERVER, Proxy

SHORT_S = 0.1
Ends = tuple[asyncio.StreamReader, asyncio.StreamWriter]


async def _echo(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    while data := await reader.read(1000):
        writer.write(data)
        await writer.drain()
    writer.close()


@asynccontextmanager
async def a_way() -> AsyncIterator[tuple[Proxy, int]]:
    server = await asyncio.start_server(_echo, "127.0.0.1", 0)
    proxy = await Proxy(server.sockets[0].getsockname()[1]).start()
    try:
        yield proxy, int(proxy.url.rpartition(":")[2])
    finally:
        await proxy.close()
        server.close()


async def _opened(port: int) -> Ends:
    return await asyncio.open_connection("127.0.0.1", port)


async def _said(ends: Ends, data: bytes) -> bytes:
    ends[1].write(data)
    return await asyncio.wait_for(ends[0].readexactly(len(data)), 60)


async def test_what_is_cut_is_reset_and_stays_so_until_it_is_mended() -> None:
    async with a_way() as (proxy, port):
        ends = await _opened(port)
        assert await _said(ends, b"hello") == b"hello"
        proxy.cut()
        with pytest.raises(ConnectionResetError):
            await asyncio.wait_for(ends[0].read(1), 60)
        with pytest.raises((ConnectionResetError, asyncio.IncompleteReadError)):
            await _said(await _opened(port), b"hello")
        proxy.mend()
        assert await _said(await _opened(port), b"again") == b"again"


@pytest.mark.parametrize("ways", [BOTH, (FROM_SERVER,)])
async def test_a_half_open_connection_stays_and_what_was_held_back_arrives_once_it_is_mended(
    ways: tuple[str, ...],
) -> None:
    async with a_way() as (proxy, port):
        ends = await _opened(port)
        proxy.silence(*ways)
        ends[1].write(b"hello")
        with pytest.raises(TimeoutError):
            await asyncio.wait_for(ends[0].read(1), SHORT_S)
        proxy.mend()
        assert await asyncio.wait_for(ends[0].readexactly(5), 60) == b"hello"


async def test_a_slow_network_holds_back_both_ways() -> None:
    async with a_way() as (proxy, port):
        ends = await _opened(port)
        proxy.slow(SHORT_S)
        began = asyncio.get_running_loop().time()
        assert await _said(ends, b"hello") == b"hello"
        assert asyncio.get_running_loop().time() - began >= 2 * SHORT_S


async def test_a_torn_connection_ends_in_the_middle_of_what_the_server_says() -> None:
    async with a_way() as (proxy, port):
        ends = await _opened(port)
        proxy.tear(after=6)
        ends[1].write(b"1234")
        assert await asyncio.wait_for(ends[0].readexactly(4), 60) == b"1234"
        ends[1].write(b"5678")
        assert await asyncio.wait_for(ends[0].read(), 60) == b"56"
        assert await _said(await _opened(port), b"whole again") == b"whole again"
