"""Who asks live: many requests in flight on one wildcard inbox, so that asking costs little of the
machine.

The connection is the router's own class, which hands an answer to a plain function: a request
through nats-py costs more than the router's answer to it, and would be what is measured.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Mapping

from bench import requests
from bench.child import Ready
from bench.figures import latencies
from bench.question import Measured
from router.delivery.wire.connection import Connection
from router.delivery.wire.first_connection import connect

PATIENCE_S = 60.0


class Asker:
    """Asks requests `first` … `last` - 1 with `in_flight` of them unanswered; every answer sends
    the next one.
    """

    def __init__(
        self, connection: Connection, subject: str, first: int, last: int, in_flight: int
    ) -> None:
        self._connection = connection
        self._subject = subject
        self._inbox = connection.new_inbox()
        self._next = first
        self._last = last
        self._in_flight = in_flight
        self._unanswered = last - first
        self._sent: dict[int, float] = {}
        self._ended = asyncio.Event()
        self.seconds: list[float] = []
        self.wrong = 0

    async def run(self) -> None:
        sid = await self._connection.subscribe_direct(f"{self._inbox}.*", self._heard)
        for _ in range(min(self._in_flight, self._unanswered)):
            self._ask()
        async with asyncio.timeout(PATIENCE_S):
            await self._ended.wait()
        await self._connection.unsubscribe(sid)

    def _ask(self) -> None:
        number, self._next = self._next, self._next + 1
        self._sent[number] = time.perf_counter()
        self._connection.publish_nowait(
            self._subject, requests.body(number), f"{self._inbox}.{number}", requests.head(number)
        )

    def _heard(
        self, subject: str, _reply: str, data: bytes, _headers: Mapping[str, str] | None
    ) -> None:
        sent = self._sent.pop(int(subject.rpartition(".")[2]), None)
        if sent is None:  # answered twice
            self.wrong += 1
            return
        self.seconds.append(time.perf_counter() - sent)
        self.wrong += not data.startswith((b'{"ok":true', b'{"version"'))  # an answer, or an echo
        self._unanswered -= 1
        if self._next < self._last:
            self._ask()
        elif not self._unanswered:
            self._ended.set()


async def ask(
    ready: Ready, *, url: str, subject: str, warm: int, count: int, in_flight: int
) -> Measured:
    """Ask `warm` requests, then `count` measured ones: rate (1/s), p50_ms, p99_ms, longest_ms, and
    how many answers were `wrong`.
    """
    connection = await connect({"servers": [url]})
    await Asker(connection, subject, 0, warm, in_flight).run()
    asker = Asker(connection, subject, warm, warm + count, in_flight)
    begin = time.perf_counter()
    await asker.run()
    elapsed = time.perf_counter() - begin
    await connection.close()
    return {"rate": count / elapsed, "wrong": asker.wrong, **latencies(asker.seconds)}
