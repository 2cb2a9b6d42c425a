"""What a consumer asks of the store of processed keys (docs/reference/requirements.md#sr-23), and
the simplest store: this process' memory.

    has   -> process -> mark -> ACK

A crash between the last two processes a message again. Where a handler's effect is a row in the
same SQLite file, it returns it as a `Write`, and effect and mark are one transaction: then it
happens once, whatever dies when (docs/reference/requirements.md#x5).
"""

from __future__ import annotations

import sqlite3
from collections.abc import Callable
from typing import Protocol

from router.core.bounded_cache import BoundedCache
from router.core.clock import steady
from router.core.errors import BrokerUnavailable, Misconfigured

# writes the handler's effect; a plain function; it must neither commit nor roll back
Write = Callable[[sqlite3.Cursor], object]


class StoreUnavailable(BrokerUnavailable):
    """The keys cannot be read or written. The consumer pauses until they can be, and no message
    spends an attempt.
    """

    code = "store_unavailable"


class Processed(Protocol):
    """The keys of one durable."""

    async def open(self) -> None:
        """Called before the first message. Raises Misconfigured when the store can never work."""

    async def close(self) -> None:
        """Called after the last message."""

    async def has(self, key: str) -> bool:
        """Whether the key was marked before. Raises BrokerUnavailable."""

    async def mark(self, key: str, write: Write | None = None) -> bool:
        """Store the key, and with it what `write` writes. False: another call marked it meanwhile,
        and nothing was written.

        Raises BrokerUnavailable when it is not stored, Misconfigured where nothing can be written,
        HandlerMisused for a `write` that is asynchronous or a generator, and any error of `write`.
        """


def refuse_to_write(write: Write | None) -> None:
    """For a store that holds keys only."""
    if write is not None:
        raise Misconfigured(
            "processed", "a handler that returns what is to be written needs the SQLite store"
        )


class MemoryProcessed:
    """Keeps the newest 100 000 keys in this process, each for `keep_s` seconds; they are lost with
    it.
    """

    def __init__(self, keep_s: float = 7 * 86_400.0) -> None:
        self._keys: BoundedCache[str, bool] = BoundedCache(100_000)
        self._keep_s = keep_s

    async def open(self) -> None: ...

    async def close(self) -> None: ...

    async def has(self, key: str) -> bool:
        return self._keys.get(key, steady()) is not None

    async def mark(self, key: str, write: Write | None = None) -> bool:
        refuse_to_write(write)
        if await self.has(key):
            return False
        now = steady()
        self._keys.put(key, True, now + self._keep_s, now)
        return True
