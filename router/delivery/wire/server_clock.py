"""The server's clock, for what several instances compare: its time is read now and then, and
counted on by this process's steady clock.

So no instance's wall clock takes part (docs/reference/budgets.md#clock). Until the server was
asked, the wall clock must do.
"""

from __future__ import annotations

import asyncio
from contextlib import suppress

from router.core.clock import Clock, steady, wall
from router.core.errors import RouterError
from router.delivery.wire.api import JetStream, nanos

READ_EVERY_S = 10.0
# of the question and its answer, which waits in the socket under a flood: a longer one tells less
# than what is known
MAX_TRIP_S = 0.5
OLD_S = 120.0  # but more than what was told so long ago
FIRST_S = 1.0  # until there is an answer that was quick


class ServerClock:
    """Seconds since the epoch. `stream`: one whose info tells the time; it is off by half of the
    trip of an answer at most.
    """

    def __init__(
        self, jetstream: JetStream, stream: str, *, now: Clock = steady, wall_clock: Clock = wall
    ) -> None:
        self._jetstream = jetstream
        self._stream = stream
        self._now = now
        self._offset = wall_clock() - now()
        self._trip_s = float("inf")  # of the answer that is in use
        self._set_at = self._read_at = float("-inf")
        self.stream_created = ""  # when the stream was made, by the server's last answer

    def __call__(self) -> float:
        return self._now() + self._offset

    def read_age(self, stored_at: float) -> float:
        """Seconds since the server stored something; 0 before its clock was read, so that nothing
        is refused by this machine's.
        """
        return self() - stored_at if self._read_at > float("-inf") else 0.0

    async def follow(self) -> None:
        """Keep it read, until cancelled. While the server does not answer, the time since its last
        answer is counted on.
        """
        while True:
            with suppress(RouterError):
                await self.read(READ_EVERY_S / 2 if self._trip_s <= MAX_TRIP_S else 0.0)
            await asyncio.sleep(READ_EVERY_S if self._trip_s <= MAX_TRIP_S else FIRST_S)

    async def read(self, max_age: float = READ_EVERY_S) -> None:
        """Ask the server if its last answer is `max_age` seconds old or older. Raises
        BrokerUnavailable.
        """
        before = self._now()
        if before - self._read_at < max_age:
            return
        info = await self._jetstream.stream(self._stream)
        after = self._now()
        if info is not None and "ts" in info:
            if after - before <= max(MAX_TRIP_S, self._trip_s) or after - self._set_at > OLD_S:
                self._offset, self._trip_s, self._set_at = (
                    nanos(info["ts"]) / 1e9 - (before + after) / 2,
                    after - before,
                    after,
                )
            self._read_at, self.stream_created = after, info["created"]
