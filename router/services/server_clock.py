"""The server's clock, for what several instances compare: its time is read now and then, and counted on by this process's steady clock.

So no instance's wall clock takes part (docs/reference/budgets.md#clock). Until the server was asked, the wall clock must do.
"""

from __future__ import annotations

import asyncio
from contextlib import suppress

from router.core.clock import Clock, steady, wall
from router.core.errors import RouterError
from router.delivery.api import JetStream, nanos

READ_EVERY_S = 10.0
MAX_TRIP_S = 0.5  # of the question and its answer: a longer one tells less than what is known
FIRST_S = 0.5  # until the stream is there for the first time


class ServerClock:
    """Seconds since the epoch. `stream`: one whose info tells the time; it is off by half of `MAX_TRIP_S` at most, once read."""

    def __init__(self, jetstream: JetStream, stream: str, *, now: Clock = steady, wall_clock: Clock = wall) -> None:
        self._jetstream = jetstream
        self._stream = stream
        self._now = now
        self._offset = wall_clock() - now()
        self._read_at = float("-inf")
        self.stream_created = ""  # when the stream was made, by the server's last answer

    def __call__(self) -> float:
        return self._now() + self._offset

    def read_age(self, stored_at: float) -> float:
        """Seconds since the server stored something; 0 before its clock was read, so that nothing is refused by this machine's."""
        return self() - stored_at if self._read_at > float("-inf") else 0.0

    async def follow(self) -> None:
        """Keep it read, until cancelled. While the server does not answer, the time since its last answer is counted on."""
        while True:
            with suppress(RouterError):
                await self.read(READ_EVERY_S / 2)
            await asyncio.sleep(READ_EVERY_S if self._read_at > float("-inf") else FIRST_S)

    async def read(self, max_age: float = READ_EVERY_S) -> None:
        """Ask the server if its last answer is `max_age` seconds old or older. Raises BrokerUnavailable."""
        before = self._now()
        if before - self._read_at < max_age:
            return
        info = await self._jetstream.stream(self._stream)
        after = self._now()
        if info is not None and "ts" in info:
            if after - before <= MAX_TRIP_S or self._read_at == float("-inf"):  # under a flood the answer waits in the socket
                self._offset = nanos(info["ts"]) / 1e9 - (before + after) / 2
            self._read_at, self.stream_created = after, info["created"]
