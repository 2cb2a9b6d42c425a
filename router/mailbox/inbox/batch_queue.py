"""What comes one by one, worked on together: whatever came while the last ones were worked on is taken at once.

add ... add --> take --> [many]        a commit costs as much for fifty as for one
"""

from __future__ import annotations

import asyncio
from collections import deque
from typing import Generic, TypeVar

T = TypeVar("T")


class BatchQueue(Generic[T]):
    """On one event loop; one taker."""

    def __init__(self) -> None:
        self._things: deque[T] = deque()
        self._is_there = asyncio.Event()

    def add(self, thing: T) -> None:
        self._things.append(thing)
        self._is_there.set()

    def take_all(self) -> list[T]:
        """All of it, for whoever ends."""
        left, self._things = list(self._things), deque()
        self._is_there.clear()
        return left

    async def take(self, most: int, linger_s: float = 0.0) -> list[T]:
        """At least one, at most so many, oldest first; `linger_s`: how long more may come after the first."""
        await self._is_there.wait()
        if linger_s:
            await asyncio.sleep(linger_s)
        taken = [self._things.popleft() for _ in range(min(most, len(self._things)))]
        if not self._things:
            self._is_there.clear()
        return taken
