"""One call at a time for each key: a second caller waits for the first, and may use its result.

For slow requests (an assignment is stored, extensions are called): concurrent duplicates wait for
the first.
"""

from __future__ import annotations

import asyncio
from collections.abc import Hashable
from typing import Generic, TypeVar

T = TypeVar("T")


class SingleFlight(Generic[T]):
    """Keys in progress; a key takes no memory once its last caller has released it."""

    def __init__(self) -> None:
        # None: no caller waits for the key, the usual case
        self._in_progress: dict[Hashable, asyncio.Future[T | None] | None] = {}

    def try_acquire(self, key: Hashable) -> bool:
        """Take the key without waiting; False: another caller holds it."""
        if key in self._in_progress:
            return False
        self._in_progress[key] = None
        return True

    async def acquire(self, key: Hashable) -> T | None:
        """Wait for the call in progress and return its result; None: the caller now holds the key
        and must `release` it.
        """
        while key in self._in_progress:
            waiter: asyncio.Future[T | None] = (
                self._in_progress[key] or asyncio.get_running_loop().create_future()
            )
            self._in_progress[key] = waiter
            # a waiter that is cancelled must not take the first one's future along
            result = await asyncio.shield(waiter)
            if result is not None:
                return result
        self._in_progress[key] = None
        return None

    def release(self, key: Hashable, result: T | None = None) -> None:
        """Release the key. All waiting callers get `result`; if it is None, the next of them takes
        the key.
        """
        waiter = self._in_progress.pop(key)
        if waiter is not None:
            waiter.set_result(result)
