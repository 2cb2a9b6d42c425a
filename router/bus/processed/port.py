"""What a consumer asks of the store of processed keys (docs/requirements.md#sr-23).

    has   -> process -> mark -> ACK

A crash between the last two processes a message again. Where a handler's effect is a row in the same SQLite file, it returns
it as a `Write`, and effect and mark are one transaction: then it happens once, whatever dies when (docs/requirements.md#x5).
"""

from __future__ import annotations

import sqlite3
from collections.abc import Callable
from typing import Protocol

from router.errors import BrokerUnavailable, Misconfigured

Write = Callable[[sqlite3.Cursor], object]  # what a handler leaves behind; it must neither commit nor roll back


class StoreUnavailable(BrokerUnavailable):
    """The keys cannot be read or written. As with any store that is away, the lane pauses and no message pays for it."""

    code = "store_unavailable"


class Processed(Protocol):
    """The keys of one durable."""

    async def open(self) -> None:
        """Before the first message. Raises Misconfigured when it can never work."""

    async def close(self) -> None:
        """After the last one."""

    async def has(self, key: str) -> bool:
        """Whether it was marked before. Raises BrokerUnavailable."""

    async def mark(self, key: str, write: Write | None = None) -> bool:
        """Keep the key, and with it what `write` writes. False: somebody else marked it meanwhile, and nothing was written.

        Raises BrokerUnavailable when it is not kept, Misconfigured where nothing can be written, and whatever `write` raises.
        """


def refuse_to_write(write: Write | None) -> None:
    """For a store that holds keys and nothing else."""
    if write is not None:
        raise Misconfigured("processed", "a handler that returns what is to be written needs the SQLite store")
