"""One at a time: who asks the same as somebody who is at it waits, and may take over what that one left.

For requests that take their time (an assignment is stored, extensions are called): concurrent duplicates wait for the first.
"""

from __future__ import annotations

import asyncio
from collections.abc import Hashable
from typing import Generic, TypeVar

T = TypeVar("T")


class SingleFlight(Generic[T]):
    """A turn for each key; nothing is kept of a key whose turns are over."""

    def __init__(self) -> None:
        self._in_progress: dict[Hashable, asyncio.Future[T | None] | None] = {}  # None: nobody waits for it, as nearly always

    def try_acquire(self, key: Hashable) -> bool:
        """Whether the turn is the caller's, as nearly always: then there is nothing to await."""
        if key in self._in_progress:
            return False
        self._in_progress[key] = None
        return True

    async def acquire(self, key: Hashable) -> T | None:
        """What the one before left; None: the turn is the caller's, who must `give` it back whatever happens."""
        while key in self._in_progress:
            turn: asyncio.Future[T | None] = self._in_progress[key] or asyncio.get_running_loop().create_future()
            self._in_progress[key] = turn
            left = await asyncio.shield(turn)  # a waiter that is cancelled must not take the first one's future along
            if left is not None:
                return left
        self._in_progress[key] = None
        return None

    def release(self, key: Hashable, left: T | None = None) -> None:
        """The turn is over. Nothing left: the next one that waits has it."""
        turn = self._in_progress.pop(key)
        if turn is not None:
            turn.set_result(left)
