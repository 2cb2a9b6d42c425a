"""A worker's heartbeats: its id, its load, and whether it is draining (docs/reference/contracts.md#heartbeats)."""

from __future__ import annotations

import asyncio
from collections.abc import Callable

import orjson

from router.contracts.heartbeat import STOPPED
from router.core.clock import now_ms
from router.delivery.wire.connection import Connection

IDLE = "idle"
BUSY = "busy"
DRAINING = "draining"


class WorkerHeartbeat:
    """Publishes one heartbeat every `interval_s` seconds; `in_hand` returns how many assignments are in flight, of at most `capacity`."""

    def __init__(
        self, connection: Connection, subject: str, worker_id: str, *, interval_s: float, capacity: int, in_hand: Callable[[], int]
    ) -> None:
        self._connection = connection
        self._subject = subject
        self._worker_id = worker_id
        self._interval_s = interval_s
        self._capacity = capacity
        self._in_hand = in_hand
        self._is_draining = False

    async def run(self) -> None:
        """A supervised child; the last heartbeat says `stopped`."""
        try:
            while True:
                self._beat()
                await asyncio.sleep(self._interval_s)
        finally:
            self._say(STOPPED, 0)

    def drain(self) -> None:
        """The worker accepts no new work from now on. It publishes that at once, since routers choose workers by it."""
        self._is_draining = True
        self._beat()

    def _beat(self) -> None:
        in_hand = self._in_hand()
        self._say(DRAINING if self._is_draining else BUSY if in_hand else IDLE, in_hand)

    def _say(self, status: str, in_hand: int) -> None:
        if not self._connection.is_connected:
            return  # a heartbeat that is sent only after a reconnect would be out of date
        beat = {
            "version": "1",
            "worker_id": self._worker_id,
            "timestamp": now_ms(),
            "status": status,
            "load": round(min(1.0, in_hand / self._capacity), 3),
            "capacity": self._capacity,
            "interval_ms": max(1, round(self._interval_s * 1000)),
        }
        self._connection.publish_nowait(self._subject, orjson.dumps(beat))
