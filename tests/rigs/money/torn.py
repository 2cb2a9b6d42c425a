"""A reader with a connection of its own, which ends at any byte, mostly in the middle of a piece."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, suppress
from urllib.parse import urlsplit

from msgspec import Struct
from nats.aio.client import Client

from tests.rigs.money.wire import Login
from tests.support.proxy import Proxy

PATIENCE_S = 5.0  # for the bytes


class TornReader(Struct, frozen=True):
    """`after`: bytes from the server that it still gets once it is told to leave."""

    client: Client
    proxy: Proxy
    after: int

    async def tear(self) -> None:
        """Return once the connection has ended; a stream that ends before sends fewer bytes, and
        then it is cut off.
        """
        self.proxy.tear(self.after)
        with suppress(TimeoutError):
            await asyncio.wait_for(self.proxy.torn.wait(), PATIENCE_S)
        self.proxy.cut()


@asynccontextmanager
async def a_torn_reader(login: Login, after: int) -> AsyncIterator[TornReader]:
    proxy = await Proxy(urlsplit(login.url).port or 4222).start()
    client = await Login(proxy.url, login.keys).connect("gateway", "_INBOX_gateway.one")
    try:
        yield TornReader(client, proxy, after)
    finally:
        await proxy.close()
        await client.close()
