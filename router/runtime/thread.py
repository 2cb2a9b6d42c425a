"""The store's own thread: whatever SQLite takes its time for, the loop goes on sending heartbeats."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import TypeVar

T = TypeVar("T")


class StoreThread:
    """One at a time, in the order in which they were asked for."""

    def __init__(self) -> None:
        self._executor = ThreadPoolExecutor(1, thread_name_prefix="event-store")

    async def run(self, work: Callable[..., T], *arguments: object) -> T:
        """Raises what `store_worker` raises. Work that was begun goes on when whoever waits for it is cancelled."""
        return await asyncio.get_running_loop().run_in_executor(self._executor, work, *arguments)

    async def close(self) -> None:
        """Returns when the last of it is done; the loop goes on meanwhile, and hears a second signal."""
        await asyncio.to_thread(self._executor.shutdown)
