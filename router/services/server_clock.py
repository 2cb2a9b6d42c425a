"""The server's clock, for what several instances compare: its time is read now and then, and counted on by this process's steady clock.

So no instance's wall clock takes part (docs/reference/budgets.md#clock). Until the server was asked, the wall clock must do.
"""

from __future__ import annotations

from router.core.clock import Clock, steady, wall
from router.delivery.api import JetStream, nanos

READ_EVERY_S = 10.0


class ServerClock:
    """Seconds since the epoch. `stream`: one whose info tells the time; it is off by the way of one message at most."""

    def __init__(self, jetstream: JetStream, stream: str, *, now: Clock = steady, wall_clock: Clock = wall) -> None:
        self._jetstream = jetstream
        self._stream = stream
        self._now = now
        self._offset = wall_clock() - now()
        self._read_at = float("-inf")
        self.stream_created = ""  # when the stream was made, by the server's last answer

    def __call__(self) -> float:
        return self._now() + self._offset

    async def read(self, max_age: float = READ_EVERY_S) -> None:
        """Ask the server if its last answer is `max_age` seconds old or older. Raises BrokerUnavailable."""
        before = self._now()
        if before - self._read_at < max_age:
            return
        info = await self._jetstream.stream(self._stream)
        after = self._now()
        if info is not None and "ts" in info:
            self._offset = nanos(info["ts"]) / 1e9 - (before + after) / 2
            self._read_at, self.stream_created = after, info["created"]
