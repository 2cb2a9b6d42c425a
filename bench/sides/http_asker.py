"""Who asks over HTTP: with so many requests in flight, or each at its time, however late the
answers are (an open loop, as `pacer`).

    whole      from the request to the last byte of its answer
    stream     the same, and to the first byte of the answer's body

It is a client on asyncio's transports with one connection for each request in flight, because a
client of a library would take more of the machine than what is measured. An answer that is not 200,
or that does not end as it should, is counted as wrong.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable
from urllib.parse import urlsplit

import orjson
from msgspec import Struct

from bench.child import Ready
from bench.figures import percentile
from bench.question import Measured

HEAD_END = b"\r\n\r\n"
CHUNKS_END = b"\r\n0\r\n\r\n"
LENGTH = b"content-length:"
PATIENCE_S = 120.0
LEAD_S = 0.05
TICK_S = 0.000_5
TEXT = "What is the weather like in Lisbon this afternoon, and shall I take a coat with me?"

Answered = Callable[["Exchange"], None]


def read_length(head: bytes) -> int:
    """The length of a body that a head tells; 0: none."""
    for line in head.lower().split(b"\r\n"):
        if line.startswith(LENGTH):
            return int(line[len(LENGTH) :])
    return 0


class Asked(Struct, frozen=True):
    """`url`: an API's, as http://127.0.0.1:8000/v1."""

    url: str
    key: str
    model: str
    is_stream: bool

    @property
    def address(self) -> tuple[str, int]:
        parts = urlsplit(self.url)
        return str(parts.hostname), int(parts.port or 80)

    def write(self) -> bytes:
        """The bytes of a request."""
        messages = [{"role": "user", "content": TEXT}]
        body = orjson.dumps(
            {"model": self.model, "messages": messages, "max_tokens": 64, "stream": self.is_stream}
        )
        parts = urlsplit(self.url)
        head = (
            f"POST {parts.path}/chat/completions HTTP/1.1\r\nhost: {parts.netloc}\r\n"
            f"authorization: Bearer {self.key}\r\ncontent-type: application/json\r\n"
            f"content-length: {len(body)}"
        )
        return head.encode() + HEAD_END + body


class Exchange(asyncio.Protocol):
    """One connection, with one request after the other. Times are of the last one."""

    def __init__(self, on_answer: Answered) -> None:
        self._on_answer = on_answer
        self._buffer = bytearray()
        self._body_at = 0
        self._end = CHUNKS_END
        self._length = 0
        self.due = self.first_byte_at = 0.0
        self.is_right = False

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        assert isinstance(transport, asyncio.Transport)
        self._transport = transport

    def ask(self, request: bytes, due: float) -> None:
        self._buffer.clear()
        self._body_at, self.due, self.first_byte_at = 0, due, 0.0
        self._transport.write(request)

    def close(self) -> None:
        self._transport.close()

    def data_received(self, data: bytes) -> None:
        self._buffer += data
        if not self._body_at and (end := self._buffer.find(HEAD_END)) >= 0:
            self._read_head(bytes(self._buffer[:end]), end + len(HEAD_END))
        if not self._body_at or len(self._buffer) == self._body_at:
            return
        self.first_byte_at = self.first_byte_at or time.perf_counter()
        if self._is_whole():
            self._on_answer(self)

    def _read_head(self, head: bytes, body_at: int) -> None:
        self._body_at, self._length = body_at, read_length(head)
        self.is_right = head.startswith(b"HTTP/1.1 200")

    def _is_whole(self) -> bool:
        if self._length:
            is_whole = len(self._buffer) >= self._body_at + self._length
            self.is_right &= b'"finish_reason"' in self._buffer if is_whole else True
            return is_whole
        is_whole = self._buffer.endswith(CHUNKS_END)
        self.is_right &= b"data: [DONE]" in self._buffer[-200:] if is_whole else True
        return is_whole

    def connection_lost(self, exc: Exception | None) -> None:
        if self.due:
            self.is_right = False


class HttpAsker:
    """Asks `count` requests. Latencies count from when a request was due."""

    def __init__(self, asked: Asked, count: int) -> None:
        self._asked, self._count = asked, count
        self._request = asked.write()
        self._idle: list[Exchange] = []
        self._all: list[Exchange] = []
        self._ended = asyncio.Event()
        self._sent = 0
        self._is_closed_loop = False
        self.seconds: list[float] = []
        self.first: list[float] = []
        self.late: list[float] = []
        self.wrong = 0

    async def keep(self, in_flight: int) -> float:
        """A closed loop; the seconds that it took."""
        self._is_closed_loop = True
        exchanges = [await self._connect() for _ in range(min(in_flight, self._count))]
        begun = time.perf_counter()
        for exchange in exchanges:
            self._ask(exchange, time.perf_counter())
        await self._wait()
        return time.perf_counter() - begun

    async def pace(self, rate: float) -> None:
        """An open loop. A request for which no connection is free gets a new one."""
        begun = time.perf_counter() + LEAD_S
        while self._sent < self._count:
            due = begun + self._sent / rate
            if (wait_s := due - time.perf_counter()) > 0:
                await asyncio.sleep(max(wait_s, TICK_S))
                continue
            exchange = self._idle.pop() if self._idle else await self._connect()
            self.late.append(time.perf_counter() - due)
            self._ask(exchange, due)
        await self._wait()

    async def _connect(self) -> Exchange:
        loop = asyncio.get_running_loop()
        _, exchange = await loop.create_connection(
            lambda: Exchange(self._on_answer), *self._asked.address
        )
        self._all.append(exchange)
        return exchange

    def _ask(self, exchange: Exchange, due: float) -> None:
        self._sent += 1
        exchange.ask(self._request, due)

    def _on_answer(self, exchange: Exchange) -> None:
        now = time.perf_counter()
        self.seconds.append(now - exchange.due)
        self.first.append(exchange.first_byte_at - exchange.due)
        self.wrong += not exchange.is_right
        if self._is_closed_loop and self._sent < self._count:
            self._ask(exchange, now)
        else:
            self._idle.append(exchange)
        if len(self.seconds) == self._count:
            self._ended.set()

    async def _wait(self) -> None:
        async with asyncio.timeout(PATIENCE_S):
            await self._ended.wait()
        for exchange in self._all:
            exchange.close()


async def ask(
    ready: Ready,
    *,
    url: str,
    key: str,
    model: str,
    is_stream: bool,
    count: int,
    in_flight: int = 0,
    rate: float = 0.0,
) -> Measured:
    """A closed loop of `in_flight`, or an open one at `rate`: rate (1/s), milliseconds p50, p99,
    first_p50, first_p99 and late (p99), the asker's cpu_s, wrong.
    """
    cpu = time.process_time()
    asker = HttpAsker(Asked(url, key, model, is_stream), count)
    if in_flight:
        rate = count / await asker.keep(in_flight)
    else:
        await asker.pace(rate)
    whole, first, late = map(sorted, (asker.seconds, asker.first, asker.late or [0.0]))
    return {
        "rate": rate,
        "p50_ms": percentile(whole, 50) * 1e3,
        "p99_ms": percentile(whole, 99) * 1e3,
        "first_p50_ms": percentile(first, 50) * 1e3,
        "first_p99_ms": percentile(first, 99) * 1e3,
        "late_ms": percentile(late, 99) * 1e3,
        "cpu_s": time.process_time() - cpu,
        "wrong": asker.wrong,
    }
