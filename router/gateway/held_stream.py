"""A stream on its way to one client: it gives its place back however it ends, and is never silent
for long.

One timer serves a whole stream. A timer and a task for each event would cost more than the event.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, Callable
from contextlib import suppress
from typing import Any, Self

from starlette.requests import ClientDisconnect
from starlette.responses import StreamingResponse
from starlette.types import Message, Receive, Scope, Send

from router.gateway.model.apis import KEEP_ALIVE


class HeldStream(StreamingResponse):
    """A stream whose source is closed, and whose place is given back, however it ends. In each
    silence of `keep_alive_s` a comment is sent.
    """

    def __init__(
        self,
        events: AsyncGenerator[bytes, None],
        on_end: Callable[[], None],
        keep_alive_s: float,
        **options: Any,
    ) -> None:
        super().__init__(events, **options)
        self._events = events
        self._on_end = on_end
        self._keep_alive_s = keep_alive_s

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        try:
            with suppress(ClientDisconnect), SilenceComments(send, self._keep_alive_s) as sender:
                await super().__call__(scope, receive, sender.send)
        finally:
            try:
                await self._events.aclose()
            finally:
                self._on_end()


class SilenceComments:
    """Passes a response's messages on, and sends a comment after each silence of `span_s`.

    Each message holds whole events, so that a comment may stand between any two.
    """

    def __init__(self, send: Send, span_s: float) -> None:
        self._send = send
        self._span_s = span_s
        self._loop = asyncio.get_running_loop()
        self._timer: asyncio.TimerHandle | None = None
        self._comment: asyncio.Task[None] | None = None
        self._sent_at = self._loop.time()
        self._is_open = False  # from its head to its last part

    def __enter__(self) -> Self:
        self._wait(self._span_s)
        return self

    def __exit__(self, *_: object) -> None:
        self._is_open = False
        for waiting in (self._timer, self._comment):
            if waiting is not None:
                waiting.cancel()

    async def send(self, message: Message) -> None:
        self._sent_at = self._loop.time()
        # a head does not say whether there is more: there is
        self._is_open = message.get("more_body", True)
        await self._send(message)

    def _wait(self, seconds: float) -> None:
        self._timer = self._loop.call_later(seconds, self._on_time)

    def _on_time(self) -> None:
        left_s = self._sent_at + self._span_s - self._loop.time()
        if left_s > 0:
            self._wait(left_s)
            return
        # a comment that waits for a slow reader is enough
        if self._is_open and (self._comment is None or self._comment.done()):
            self._comment = self._loop.create_task(self._send_comment())
        self._wait(self._span_s)

    async def _send_comment(self) -> None:
        part = {"type": "http.response.body", "body": KEEP_ALIVE, "more_body": True}
        # the client left, or the response ended while this waited: its own send hears of that
        with suppress(OSError, RuntimeError):
            if self._is_open:
                await self._send(part)
