"""The store's own thread: while SQLite works, the event loop goes on sending heartbeats."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import TypeVar

T = TypeVar("T")


class StoreThread:
    """Runs one call at a time, in the order of the calls."""

    def __init__(self) -> None:
        self._executor = ThreadPoolExecutor(1, thread_name_prefix="event-store")

    async def run(self, work: Callable[..., T], *arguments: object) -> T:
        """Raises what `work` raises. Work that was begun goes on when its caller is cancelled."""
        return await asyncio.get_running_loop().run_in_executor(self._executor, work, *arguments)

    async def close(self) -> None:
        """Returns when the last call has ended; the event loop goes on meanwhile, and can handle a
        second signal.
        """
        await asyncio.to_thread(self._executor.shutdown)
