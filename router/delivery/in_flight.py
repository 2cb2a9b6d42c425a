"""What this process holds of one durable, and keeps alive: one timer for all in-progress signals."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from typing import Any

from msgspec import Struct

from router.core.deferred import Deferred
from router.core.message import Message
from router.delivery.connection import Connection
from router.delivery.pooled_call import PooledCall
from router.delivery.subscription import IN_PROGRESS

SIGNALS_PER_ACK_WAIT = 4  # in one ack wait: a process, a broker or a machine that stands still for most of the rest costs no delivery


class InFlightMessage(Struct):
    """One message in hand. `token` is the newest delivery's; an older one settles the same message."""

    message: Message
    token: str
    signal_at: float  # steady seconds of the next in-progress signal
    task: PooledCall | Deferred[Any] | None = None  # its handler, when that waits


class InFlight:
    """The messages in hand, by stream position. A re-created stream counts from 1 again, so its time is part of the key."""

    def __init__(self, connection: Connection, ack_wait_s: float) -> None:
        self._connection = connection
        self._signal_s = ack_wait_s / SIGNALS_PER_ACK_WAIT
        self._held: dict[tuple[int, int], InFlightMessage] = {}
        self._now = asyncio.get_running_loop().time

    def __len__(self) -> int:
        return len(self._held)

    def __contains__(self, message: Message) -> bool:
        return (message.sequence, message.stored_ns) in self._held

    def __iter__(self) -> Iterator[InFlightMessage]:
        return iter(list(self._held.values()))

    def find(self, message: Message) -> InFlightMessage | None:
        return self._held.get((message.sequence, message.stored_ns))

    def add(self, message: Message) -> InFlightMessage:
        """Take a message in hand; one that is held already stays as it is."""
        key = (message.sequence, message.stored_ns)
        held = self._held.get(key)
        if held is None:
            held = self._held[key] = InFlightMessage(message, message.token, self._now() + self._signal_s)
        return held

    def pop(self, message: Message) -> str:
        """Out of hand; returns the token that settles it."""
        held = self._held.pop((message.sequence, message.stored_ns), None)
        return held.token if held is not None else message.token

    def signal(self, next_in_s: float = 0.0) -> None:
        """Tell the server that we are still at it, for whatever is due before the next call: also for what waits in the prefetch."""
        if not self._connection.is_connected:
            return  # it would pile up in the write buffer and arrive when it says nothing any more
        now = self._now()
        until = now + next_in_s
        for held in self._held.values():
            if held.signal_at <= until:
                held.signal_at = now + self._signal_s
                self._connection.publish_nowait(held.token, IN_PROGRESS)
