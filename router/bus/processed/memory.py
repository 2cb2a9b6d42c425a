"""Processed keys in the memory of this process, lost with it. For tests, and for handlers that may run twice."""

from __future__ import annotations

from router.bus.processed.port import Write, refuse_to_write
from router.core.bounded_cache import BoundedCache
from router.core.clock import Clock, steady


class MemoryProcessed:
    """Keeps the newest `entries` keys, each for `keep_s` seconds."""

    def __init__(self, entries: int = 100_000, keep_s: float = 7 * 86_400.0, clock: Clock = steady) -> None:
        self._keys: BoundedCache[str, bool] = BoundedCache(entries)
        self._keep_s = keep_s
        self._clock = clock

    async def open(self) -> None: ...

    async def close(self) -> None: ...

    async def has(self, key: str) -> bool:
        return self._keys.get(key, self._clock()) is not None

    async def mark(self, key: str, write: Write | None = None) -> bool:
        refuse_to_write(write)
        if await self.has(key):
            return False
        now = self._clock()
        self._keys.put(key, True, now + self._keep_s, now)
        return True
