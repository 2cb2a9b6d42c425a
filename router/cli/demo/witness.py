"""Who watches a message on its way: every publish on the subjects of the circle, with the time it was seen."""

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncIterator, Callable, Mapping, Sequence
from contextlib import asynccontextmanager
from typing import Any

import orjson
from msgspec import Struct

from router.delivery.connection import Connection
from router.errors import Unanswered

SEEN_WITHIN_S = 5.0


class Sight(Struct, frozen=True):
    """One thing that happened on the way: `ms` since the way began."""

    name: str
    subject: str
    says: str
    ms: float
    body: Mapping[str, Any] = {}


class Witness:
    """Keeps what is published; `begin` forgets what came before and sets the clock to 0."""

    def __init__(self) -> None:
        self._seen: list[tuple[str, float, dict[str, Any]]] = []
        self._came = asyncio.Event()
        self._begun = 0.0

    def begin(self) -> None:
        self._seen.clear()
        self._begun = time.perf_counter()

    @property
    def now_ms(self) -> float:
        return (time.perf_counter() - self._begun) * 1000

    def hear(self, subject: str, _reply: str, data: bytes, _headers: Mapping[str, str] | None) -> None:
        self._seen.append((subject, self.now_ms, orjson.loads(data)))
        self._came.set()

    def all_on(self, subject: str) -> list[Mapping[str, Any]]:
        return [body for seen, _, body in self._seen if seen == subject]

    async def sees(self, name: str, subject: str, says: Callable[[Mapping[str, Any]], str]) -> Sight:
        """The newest on this subject, as soon as there is one. Raises Unanswered when there is none for five seconds."""
        try:
            async with asyncio.timeout(SEEN_WITHIN_S):
                while not (found := [one for one in self._seen if one[0] == subject]):
                    self._came.clear()
                    await self._came.wait()
        except TimeoutError:
            raise Unanswered(f"{name}: nothing came on {subject} within {SEEN_WITHIN_S:g} s") from None
        _, ms, body = found[-1]
        return Sight(name, subject, says(body), ms, body)


@asynccontextmanager
async def watching(connection: Connection, subjects: Sequence[str]) -> AsyncIterator[Witness]:
    """A witness of everything that is published there."""
    witness = Witness()
    for subject in subjects:
        await connection.subscribe_direct(subject, witness.hear)
    await connection.flush()
    yield witness
