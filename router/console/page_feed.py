"""The page Now for browsers that stay on it: each sample is rendered once, and sent to every
browser as an event, with pings between them.

at most `most` browsers        one more gets 503, and its page stays as it was rendered
a browser holds one event      one that has not taken it when the next comes is dropped; it may
                               connect again
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable
from contextlib import suppress

from sse_starlette import EventSourceResponse
from starlette.responses import Response

EVENT = "now"


class PageFeed:
    def __init__(self, most: int) -> None:
        self._most = most
        self._clients: set[asyncio.Queue[str | None]] = set()

    @property
    def count(self) -> int:
        return len(self._clients)

    @property
    def is_full(self) -> bool:
        return self.count >= self._most

    def publish(self, fragment: str) -> None:
        """Give the fragment to each browser. One that holds the last one still is dropped."""
        for client in tuple(self._clients):
            try:
                client.put_nowait(fragment)
            except asyncio.QueueFull:
                self._drop(client)

    def close(self) -> None:
        for client in tuple(self._clients):
            self._drop(client)

    async def follow(
        self, is_allowed: Callable[[], bool] = lambda: True
    ) -> AsyncIterator[dict[str, str]]:
        """The events of one browser, until it is dropped, goes, or is not allowed any more: asked
        before each.
        """
        client: asyncio.Queue[str | None] = asyncio.Queue(maxsize=1)
        self._clients.add(client)
        try:
            while (fragment := await client.get()) is not None and is_allowed():
                yield {"event": EVENT, "data": fragment}
        finally:
            self._clients.discard(client)

    def _drop(self, client: asyncio.Queue[str | None]) -> None:
        self._clients.discard(client)
        with suppress(asyncio.QueueEmpty):
            client.get_nowait()
        client.put_nowait(None)


# -- Events to a browser that stays: pings, and a limit of time for each send.


SEND_WITHIN_S = 10.0  # a browser that does not take an event within this is cut off
PING_EVERY_S = 15


def answer_with_events(events: AsyncIterator[dict[str, str]]) -> Response:
    response: Response = EventSourceResponse(events, ping=PING_EVERY_S, send_timeout=SEND_WITHIN_S)
    return response
