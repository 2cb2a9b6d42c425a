"""Large messages begin one in a turn of the event loop, and after the small ones that wait behind
them in the socket.

A handler holds the loop for as long as it reads and encodes its message: some 5 ms for 0.9 MB.
Twenty of them in one turn would let every other tenant's request wait for a tenth of a second. So a
large one is begun alone, when the socket holds no more than was just read, or after MOST_TURNS.
"""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Callable

from router.delivery.consume.in_flight import InFlightMessage
from router.delivery.wire.connection import Connection

LARGE_BYTES = 64 * 1024  # such a payload costs its handler about half a millisecond
MOST_TURNS = 16  # a turn reads at most 256 KiB: so many hold four of the largest messages


class LargeMessages:
    """The queue of one consumer. What is in it is in flight too, so the consumer's prefetch bounds
    it.
    """

    def __init__(self, connection: Connection, begin: Callable[[InFlightMessage], None]) -> None:
        self._connection = connection
        self._begin = begin
        self._queue: deque[InFlightMessage] = deque()
        self._turns = 0  # in which the first one has waited
        self._is_scheduled = False

    def put(self, held: InFlightMessage) -> None:
        self._queue.append(held)
        if not self._is_scheduled:
            self._schedule()

    def _schedule(self) -> None:
        self._is_scheduled = True
        asyncio.get_running_loop().call_soon(self._take_turn)

    def _take_turn(self) -> None:
        self._is_scheduled = False
        self._turns += 1
        if self._connection.is_behind and self._turns < MOST_TURNS:
            self._schedule()
            return
        self._turns = 0
        held = self._queue.popleft()
        if self._queue:
            self._schedule()
        self._begin(held)
