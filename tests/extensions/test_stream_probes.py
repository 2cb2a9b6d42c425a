"""Streams of a provider whose breaker is half open: the first good piece is what a probe waits for,
not the end of the stream.
"""

import asyncio
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager

import pytest
from msgspec import Struct

from router.contracts.provider_chunk import StreamChunk
from router.contracts.provider_request import ProviderRequest
from router.extensions.model import ExtensionRegistry, HealthTracker, Invoker, parse_entry
from router.extensions.model.ports import NULL_METER, NullCaller
from router.extensions.model.providers import ProviderInvoker, ServiceRecords
from tests.support.breakers import a_registry
from tests.support.ledgers import KeptLedger
from tests.support.providers import NoLimits
from tests.support.waiting import until

REQUEST = ProviderRequest(provider_id="echo", tenant_id="acme", request_id="r-1", trace_id="t-1")
ENTRY = {
    "id": "echo",
    "type": "provider",
    "subject": "beamline.provider.echo.v1",
    "timeout_ms": 5_000,
}
PIECE, LAST = b'{"data": "1", "done": false}', b'{"data": "2", "done": true}'
FAILED = b'{"done": true, "metadata": {"status": "error", "error_code": "boom"}}'
FAILURES, OPEN_S, PROBES = 5, 60.0, 3  # of an extension's breaker


class Piece(Struct):
    data: bytes
    headers: dict[str, str] = {}


class OneStream:
    """A stream as its reader has it, and its pieces, which the test sends."""

    def __init__(self, providers: ProviderInvoker) -> None:
        self.chunks: list[StreamChunk] = []
        self.pieces: asyncio.Queue[bytes] = asyncio.Queue()
        self.is_open = False
        self.task = asyncio.create_task(providers.stream(REQUEST, self.chunks.append, KeptLedger()))

    @property
    def code(self) -> str | None:
        return self.chunks[-1].metadata.get("error_code") if self.chunks else None


class Streams:
    """Streams of one provider, on a clock that only the test moves."""

    def __init__(self) -> None:
        self.now = 0.0
        self.breakers, self.health = a_registry(now=self.clock), HealthTracker(now=self.clock)
        self._opening: list[OneStream] = []
        self._all: list[OneStream] = []
        self._providers = ProviderInvoker(
            ExtensionRegistry([parse_entry(ENTRY)]),
            Invoker(NullCaller(), None, None, NULL_METER),
            self._open,
            records=ServiceRecords(breakers=self.breakers, health=self.health, meter=NULL_METER),
            limits=NoLimits(),
            now=self.clock,
        )

    def clock(self) -> float:
        return self.now

    @property
    def state(self) -> str:
        return self.breakers.snapshots()["echo"].worst.state

    async def begin(self, *pieces: bytes) -> OneStream:
        """A stream that has read these pieces, or is over."""
        one = OneStream(self._providers)
        self._opening.append(one)
        self._all.append(one)
        for piece in pieces:
            one.pieces.put_nowait(piece)
        await until(lambda: one.task.done() or (one.is_open and len(one.chunks) >= len(pieces)))
        return one

    async def send(self, one: OneStream, piece: bytes) -> None:
        one.pieces.put_nowait(piece)
        await until(lambda: one.task.done())

    async def become_half_open(self) -> None:
        for _ in range(FAILURES):
            await self.begin(FAILED)
        assert self.state == "open"
        self.now += OPEN_S

    async def stop(self) -> None:
        for one in self._all:
            one.task.cancel()
        await asyncio.wait({one.task for one in self._all})

    @asynccontextmanager
    async def _open(
        self,
        subject: str,
        data: bytes,
        headers: Mapping[str, str],
        silence_s: float,
        on_unread: object,
    ) -> AsyncIterator[AsyncIterator[Piece]]:
        one = self._opening.pop()
        one.is_open = True
        yield self._read(one)

    async def _read(self, one: OneStream) -> AsyncIterator[Piece]:
        while True:
            yield Piece(await one.pieces.get())


@pytest.fixture
async def streams() -> AsyncIterator[Streams]:
    streams = Streams()
    yield streams
    await streams.stop()


async def test_long_streams_that_begin_well_open_their_provider_to_all(streams: Streams) -> None:
    await streams.become_half_open()
    long = [await streams.begin(PIECE) for _ in range(PROBES)]
    assert streams.state == "closed"
    assert (await streams.begin(PIECE, LAST)).code is None
    assert [one.task.done() for one in long] == [False] * PROBES


async def test_one_probe_after_the_other_takes_a_place_until_its_first_piece(
    streams: Streams,
) -> None:
    await streams.become_half_open()
    silent = [await streams.begin() for _ in range(PROBES)]
    assert (await streams.begin()).code == "extension_unavailable"
    silent[0].pieces.put_nowait(PIECE)
    await until(lambda: silent[0].chunks)
    assert (streams.state, (await streams.begin()).code) == ("half_open", None)


async def test_a_probe_that_hears_nothing_holds_its_place_for_the_time_of_a_piece(
    streams: Streams,
) -> None:
    await streams.become_half_open()
    for _ in range(PROBES):
        await streams.begin()
    streams.now += ENTRY["timeout_ms"] / 1000 + 1
    assert (await streams.begin()).code is None


async def test_a_probe_that_is_cancelled_frees_its_place(streams: Streams) -> None:
    await streams.become_half_open()
    silent = [await streams.begin() for _ in range(PROBES)]
    silent[0].task.cancel()
    await until(silent[0].task.done)
    assert (streams.state, (await streams.begin()).code) == ("half_open", None)


async def test_a_stream_that_begins_well_and_fails_opens_a_half_open_breaker_again(
    streams: Streams,
) -> None:
    await streams.become_half_open()
    one = await streams.begin(PIECE)
    assert streams.state == "half_open"
    await streams.send(one, FAILED)
    assert streams.state == "open"


async def test_streams_that_begin_well_and_fail_open_a_closed_breaker(streams: Streams) -> None:
    for _ in range(FAILURES):
        await streams.begin(PIECE, FAILED)
    assert streams.state == "open"


async def test_a_stream_that_ends_well_ends_a_row_of_failures(streams: Streams) -> None:
    for last in (*[FAILED] * 4, LAST, *[FAILED] * 4):
        await streams.begin(last)
    assert streams.state == "closed"


async def test_a_failure_of_a_probe_that_began_before_another_opening_is_not_counted(
    streams: Streams,
) -> None:
    await streams.become_half_open()
    first, second = await streams.begin(PIECE), await streams.begin()
    streams.now += 1
    await streams.send(second, FAILED)
    streams.now += OPEN_S
    third = await streams.begin()
    assert streams.state == "half_open"
    await streams.send(first, FAILED)
    assert streams.state == "half_open"
    await streams.send(third, LAST)
    assert third.code is None


@pytest.mark.parametrize(("last", "counts"), [(LAST, (1, 0)), (FAILED, (0, 1))])
async def test_health_counts_a_probe_once_at_its_end(
    streams: Streams, last: bytes, counts: tuple[int, int]
) -> None:
    await streams.become_half_open()
    one = await streams.begin(PIECE)
    before = streams.health.figures("echo")
    await streams.send(one, last)
    after = streams.health.figures("echo")
    assert (
        after.success_count - before.success_count,
        after.failure_count - before.failure_count,
    ) == counts
