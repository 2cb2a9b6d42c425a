"""One handler call in the task pool: how to end it early, and how to wait for its end."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable

from router.core.message import Message
from router.core.outcome import Outcome


class PooledCall:
    """From the handler's promise until what came of it was told. `task`: the slot's, which has other turns before and after."""

    __slots__ = ("_waiter", "awaited", "is_over", "message", "task")

    def __init__(self, message: Message, awaited: Awaitable[Outcome]) -> None:
        self.message = message
        self.awaited = awaited
        self.task: asyncio.Task[None] | None = None
        self.is_over = False
        self._waiter: asyncio.Future[None] | None = None

    def cancel(self) -> None:
        """The message goes back; a turn that is over is left alone, for its slot works on another message."""
        if self.task is not None and not self.is_over:
            self.task.cancel()

    def end(self) -> None:
        self.is_over = True
        if self._waiter is not None and not self._waiter.done():
            self._waiter.set_result(None)

    async def wait_until_over(self) -> None:
        """Wait until it is over, whatever came of it."""
        if not self.is_over:
            self._waiter = self._waiter or asyncio.get_running_loop().create_future()
            await asyncio.shield(self._waiter)
