"""Queue that hands out everything queued since the last call as one batch (group commit): a commit costs as much for fifty as for one.

add ... add --> take --> [many]
"""

from __future__ import annotations

import asyncio
from collections import deque
from typing import Generic, TypeVar

T = TypeVar("T")


class BatchQueue(Generic[T]):
    """For one event loop and one taker."""

    def __init__(self) -> None:
        self._things: deque[T] = deque()
        self._is_there = asyncio.Event()

    def add(self, thing: T) -> None:
        self._things.append(thing)
        self._is_there.set()

    def take_all(self) -> list[T]:
        """Return and remove all of it, at the end."""
        left, self._things = list(self._things), deque()
        self._is_there.clear()
        return left

    async def take(self, most: int, linger_s: float = 0.0) -> list[T]:
        """Return at least one and at most so many, oldest first; `linger_s`: how long to wait for more after the first."""
        await self._is_there.wait()
        if linger_s:
            await asyncio.sleep(linger_s)
        taken = [self._things.popleft() for _ in range(min(most, len(self._things)))]
        if not self._things:
            self._is_there.clear()
        return taken
