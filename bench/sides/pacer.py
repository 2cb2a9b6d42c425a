"""Who asks in an open loop: each request at its time, whatever was answered until then.

A latency counts from the time that the request was due, not from when it was sent: a stall of any
process, of this one too, is counted for every request that came due in the meantime (no coordinated
omission). How late it sent is told beside it.
"""

from __future__ import annotations

import asyncio
import selectors
import time
from collections.abc import Callable, Coroutine, Mapping

from msgspec import Struct, convert

from bench import requests
from bench.child import Ready
from bench.figures import percentile
from bench.question import Measured
from bench.sides.asker import PATIENCE_S, Asker
from router.delivery.wire.connection import Connection
from router.delivery.wire.first_connection import connect

TICK_S = 0.000_25  # what came due within one is sent together
LEAD_S = 0.05
OVERLOADED = b'"code":"overloaded"'
MOST_TOLD = 10  # requests without an answer that are told


class Pacer:
    """Asks requests `first` … `first + count - 1`, `rate` of them a second, evenly."""

    def __init__(
        self,
        connection: Connection,
        subject: str,
        first: int,
        count: int,
        rate: float,
        *,
        head: Callable[[int], bytes] = requests.head,
    ) -> None:
        self._head = head
        self._connection = connection
        self._subject = subject
        self._inbox = connection.new_inbox()
        self._first, self._count, self._rate = first, count, rate
        self._begun = 0.0
        self._ended = asyncio.Event()
        self._unheard = set(range(count))  # places of requests without an answer
        self.seconds: dict[int, float] = {}  # by place of what was decided, from when it was due
        self.refused = 0  # told that the router has more than it can answer
        self.late: list[float] = []  # seconds, one a request
        self.wrong = 0

    async def run(self) -> None:
        sid = await self._connection.subscribe_direct(f"{self._inbox}.*", self._heard)
        await self._connection.flush()
        self._begun = time.perf_counter() + LEAD_S
        while (sent := len(self.late)) < self._count:
            self._send(
                sent, min(self._count, int((time.perf_counter() - self._begun) * self._rate) + 1)
            )
            await asyncio.sleep(TICK_S)
        try:
            async with asyncio.timeout(PATIENCE_S):
                await self._ended.wait()
        except TimeoutError:
            first = [self._first + place for place in sorted(self._unheard)[:MOST_TOLD]]
            raise TimeoutError(
                f"{len(self._unheard)} of {self._count} requests have no answer: {first}"
            ) from None
        await self._connection.unsubscribe(sid)

    def _due(self, place: int) -> float:
        return self._begun + place / self._rate

    def _send(self, begin: int, end: int) -> None:
        for place in range(begin, end):
            number = self._first + place
            self.late.append(time.perf_counter() - self._due(place))
            self._connection.publish_nowait(
                self._subject, requests.body(number), f"{self._inbox}.{place}", self._head(number)
            )

    def _heard(
        self, subject: str, _reply: str, data: bytes, _headers: Mapping[str, str] | None
    ) -> None:
        place = int(subject.rpartition(".")[2])
        if place not in self._unheard:  # answered twice
            self.wrong += 1
            return
        self._unheard.discard(place)
        if data.startswith((b'{"ok":true', b'{"version"')):  # an answer, or an echo
            self.seconds[place] = time.perf_counter() - self._due(place)
        elif OVERLOADED in data:
            self.refused += 1
        else:
            self.wrong += 1
        if not self._unheard:
            self._ended.set()


class Ramp(Struct, frozen=True):
    """Requests that warm up, that show the capacity `in_flight` at once, and those of an open loop:
    a share (percent) of `opened` each.
    """

    warm: int
    closed: int
    opened: int
    shares: tuple[int, ...]
    in_flight: int

    @property
    def all(self) -> int:
        return self.warm + self.closed + sum(map(self.count, self.shares))

    def count(self, share: int) -> int:
        return self.opened * share // 100


async def pace_at(
    ready: Ready, *, url: str, subject: str, warm: int, count: int, rate: float, is_broken: bool
) -> Measured:
    """An open loop at one rate, after some to warm up: rate (1/s), p50_ms, p99_ms, late_ms (of the
    sender, p99), wrong.

    `is_broken`: each request breaks two rules of the header contract, else none.
    """

    async def work() -> Measured:
        connection, head = (
            await connect({"servers": [url]}),
            requests.broken_head if is_broken else requests.head,
        )
        try:
            await Pacer(connection, subject, 0, warm, rate, head=head).run()
            pacer = Pacer(connection, subject, warm, count, rate, head=head)
            await pacer.run()
        finally:
            await connection.close()
        ordered, late = sorted(pacer.seconds.values()), sorted(pacer.late)
        figures = {
            "p50_ms": percentile(ordered, 50),
            "p99_ms": percentile(ordered, 99),
            "late_ms": percentile(late, 99),
        }
        return {
            "rate": rate,
            "wrong": float(pacer.wrong + pacer.refused),
            **{name: seconds * 1e3 for name, seconds in figures.items()},
        }

    return await asyncio.to_thread(_run_finely, work)


def _run_finely(work: Callable[[], Coroutine[None, None, Measured]]) -> Measured:
    # On `select`: epoll, asyncio's choice, rounds every wait up to a millisecond, which the
    # latencies would show.
    with asyncio.Runner(
        loop_factory=lambda: asyncio.SelectorEventLoop(selectors.SelectSelector())
    ) as runner:
        return runner.run(work())


async def pace(ready: Ready, *, url: str, subject: str, ramp: dict[str, object]) -> Measured:
    """Capacity in a closed loop, then an open one at each share of it.

    capacity (1/s), wrong; by share, 50 for instance: rate_50 (1/s), p50_50_ms, p99_50_ms,
    p999_50_ms, late_50_ms (of the sender, p99), refused_50 (%, `overloaded`, in no latency).
    """

    async def work() -> Measured:
        connection = await connect({"servers": [url]})
        try:
            return await _paced(connection, subject, convert(ramp, Ramp))
        finally:
            await connection.close()

    return await asyncio.to_thread(_run_finely, work)


async def _paced(connection: Connection, subject: str, ramp: Ramp) -> dict[str, float]:
    await Asker(connection, subject, 0, ramp.warm, ramp.in_flight).run()
    first = ramp.warm + ramp.closed
    asker, begun = Asker(connection, subject, ramp.warm, first, ramp.in_flight), time.perf_counter()
    await asker.run()
    capacity = ramp.closed / (time.perf_counter() - begun)
    figures = {"capacity": capacity, "wrong": float(asker.wrong)}
    for share in ramp.shares:
        pacer = Pacer(connection, subject, first, ramp.count(share), capacity * share / 100)
        await pacer.run()
        first += ramp.count(share)
        figures["wrong"] += pacer.wrong
        figures |= _figures(pacer, share, capacity)
    return figures


def _figures(pacer: Pacer, share: int, capacity: float) -> dict[str, float]:
    ordered, late = sorted(pacer.seconds.values()), sorted(pacer.late)
    places = {"p50": 50, "p99": 99, "p999": 99.9}
    return {
        f"rate_{share}": capacity * share / 100,
        **{
            f"{name}_{share}_ms": percentile(ordered, percent) * 1e3
            for name, percent in places.items()
        },
        f"late_{share}_ms": percentile(late, 99) * 1e3,
        f"refused_{share}": pacer.refused / len(late) * 100,
    }
