"""Connections to an API, the one that was used last first.

A pool of httpx2 looks at each of its connections before and after each call, with a look at the
socket of each idle one. With 64 of them that was two fifths of what a call costs. So each
connection here is a client with a pool of one, and a call takes the client on top of the others.

    a call ──> the last client that came back, else a new one ──> back on top
                    the lowest, once it has rested for IDLE_S ──> closed
"""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager

import httpx2
from msgspec import Struct

IDLE_S = 30.0


class RestingClient(Struct, frozen=True):
    client: httpx2.AsyncClient
    since: float


class ClientStack:
    """`most`: clients that are out at once; one more waits for `wait_s`."""

    def __init__(
        self, make_client: Callable[[], httpx2.AsyncClient], most: int, wait_s: float
    ) -> None:
        self._make_client = make_client
        self._places = asyncio.Semaphore(most)
        self._wait_s = wait_s
        self._resting: deque[RestingClient] = deque()
        self._is_closed = False

    @asynccontextmanager
    async def lend(self) -> AsyncIterator[httpx2.AsyncClient]:
        """A client of one connection. Raises httpx2.PoolTimeout."""
        await self._take_place()
        try:
            client = self._resting.pop().client if self._resting else self._make_client()
            try:
                yield client
            finally:
                await self._take_back(client)
        finally:
            self._places.release()

    async def close(self) -> None:
        """Close the clients that are not lent, and each of the others when it comes back."""
        self._is_closed = True
        while self._resting:
            await self._resting.pop().client.aclose()

    async def _take_place(self) -> None:
        if not self._places.locked():
            await self._places.acquire()
            return
        try:
            async with asyncio.timeout(self._wait_s):
                await self._places.acquire()
        except TimeoutError:
            raise httpx2.PoolTimeout("every connection is in use") from None

    async def _take_back(self, client: httpx2.AsyncClient) -> None:
        now = asyncio.get_running_loop().time()
        if self._is_closed:
            await client.aclose()
            return
        self._resting.append(RestingClient(client, now))
        if self._resting[0].since + IDLE_S < now:
            await self._resting.popleft().client.aclose()
