"""Record every message that is published on the subjects of the round trip, with the time at which
it was seen.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncIterator, Callable, Mapping, Sequence
from contextlib import asynccontextmanager
from typing import Any

import orjson
from msgspec import Struct

from router.contracts.headers import MESSAGE_ID
from router.core.errors import Unanswered
from router.delivery.wire.connection import Connection

SEEN_WITHIN_S = 30.0  # on a busy machine


class ObservedMessage(Struct, frozen=True):
    """One step of the round trip: `ms` since it began."""

    name: str
    subject: str
    says: str
    ms: float
    body: Mapping[str, Any] = {}


class MessageRecorder:
    """Keeps published messages; `begin` drops the earlier ones and sets the clock to 0.

    A publisher that gets no publish ack sends a message again. The stream does not store that copy,
    and it is not kept here.
    """

    def __init__(self) -> None:
        self._seen: list[tuple[str, float, dict[str, Any]]] = []
        # with subjects; also of earlier messages, as a copy may come after `begin`
        self._message_ids: set[tuple[str, str]] = set()
        self._has_news = asyncio.Event()
        self._start = 0.0

    def begin(self) -> None:
        self._seen.clear()
        self._start = time.perf_counter()

    @property
    def now_ms(self) -> float:
        return (time.perf_counter() - self._start) * 1000

    def on_message(
        self, subject: str, _reply: str, data: bytes, headers: Mapping[str, str] | None
    ) -> None:
        message_id = (headers or {}).get(MESSAGE_ID)
        if (subject, message_id) in self._message_ids:
            return
        if message_id is not None:
            self._message_ids.add((subject, message_id))
        self._seen.append((subject, self.now_ms, orjson.loads(data)))
        self._has_news.set()

    def list_bodies(self, subject: str) -> list[Mapping[str, Any]]:
        return [body for seen, _, body in self._seen if seen == subject]

    async def wait_for(
        self, name: str, subject: str, says: Callable[[Mapping[str, Any]], str]
    ) -> ObservedMessage:
        """Wait for a message on this subject and return the newest. Raises Unanswered if none comes
        within SEEN_WITHIN_S.
        """
        try:
            async with asyncio.timeout(SEEN_WITHIN_S):
                while not (found := [one for one in self._seen if one[0] == subject]):
                    self._has_news.clear()
                    await self._has_news.wait()
        except TimeoutError:
            raise Unanswered(
                f"{name}: nothing came on {subject} within {SEEN_WITHIN_S:g} s"
            ) from None
        _, ms, body = found[-1]
        return ObservedMessage(name, subject, says(body), ms, body)


@asynccontextmanager
async def record_messages(
    connection: Connection, subjects: Sequence[str]
) -> AsyncIterator[MessageRecorder]:
    """Record everything that is published on these subjects."""
    witness = MessageRecorder()
    for subject in subjects:
        await connection.subscribe_direct(subject, witness.on_message)
    await connection.flush()
    yield witness
