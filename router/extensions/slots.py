"""How many pipelines run at once in this process, and how many may wait for their turn; who comes after those is `overloaded`.

What waits in the stream waits safely and costs nothing; this bounds what was begun. By default the lane's own slots are as many as
these, so that nobody ever waits here. (A semaphore does the same at five times the cost, where nobody waits.)
"""

from __future__ import annotations

import asyncio
from collections import deque

from router.contracts.decision import OVERLOADED, Refusal

FULL = Refusal(OVERLOADED, "Too many requests with extensions are under way here; try again")


class Slots:
    """`take`, or else `wait`, unless `is_full`; then `give` back, whatever happened."""

    def __init__(self, slots: int = 64, queue: int = 1024) -> None:
        self._free = slots
        self._queue = queue
        self._waiting: deque[asyncio.Future[None]] = deque()

    @property
    def is_full(self) -> bool:
        return not self._free and len(self._waiting) >= self._queue

    def take(self) -> bool:
        """One slot at once, if there is one."""
        if not self._free:
            return False
        self._free -= 1
        return True

    async def wait(self) -> None:
        """One slot, first come, first served."""
        turn: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self._waiting.append(turn)
        try:
            await turn
        except asyncio.CancelledError:
            if not turn.cancelled():
                self.give()  # it was handed over in the same turn of the loop
            elif turn in self._waiting:
                self._waiting.remove(turn)
            raise

    def give(self) -> None:
        """To who waits longest, else to whoever comes."""
        while self._waiting:
            turn = self._waiting.popleft()
            if not turn.done():
                turn.set_result(None)
                return
        self._free += 1
