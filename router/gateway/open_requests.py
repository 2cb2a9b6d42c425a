"""Requests in flight: a client that leaves ends its own, a gateway that stops ends all of them.

SIGTERM ── no new connection ── drain_ms ──> `end_all`   whole answer   503
                                                         stream         an event with the error
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Iterator
from contextlib import contextmanager
from typing import TypeVar

from starlette.requests import ClientDisconnect, Request

from router.gateway.model.refusal import NO_ROUTER, GatewayRefusal

STOPPING = "The gateway is stopping"
AGAIN_MS = 1_000
T = TypeVar("T")


class OpenRequests:
    """Of one gateway: how each of its requests is ended."""

    def __init__(self) -> None:
        self._ends: dict[int, Callable[[], object]] = {}

    @contextmanager
    def hold(self, end: Callable[[], object]) -> Iterator[None]:
        """`end` is called at most once, and only within the block."""
        self._ends[id(end)] = end
        try:
            yield
        finally:
            self._ends.pop(id(end), None)

    def end_all(self) -> None:
        while self._ends:
            self._ends.popitem()[1]()

    async def run_for_client(self, request: Request, work: Awaitable[T]) -> T:
        """The result. When the client leaves, or the gateway stops, the work is cancelled first.

        Raises ClientDisconnect, GatewayRefusal.
        """
        working = asyncio.ensure_future(work)
        leaving = asyncio.ensure_future(request.receive())
        try:
            with self.hold(working.cancel):
                await asyncio.wait({working, leaving}, return_when=asyncio.FIRST_COMPLETED)
            if not working.done():
                raise ClientDisconnect
            if working.cancelled():
                raise GatewayRefusal(NO_ROUTER, STOPPING, retry_after_ms=AGAIN_MS)
            return working.result()
        finally:
            working.cancel()
            leaving.cancel()
            await asyncio.wait({working, leaving})
