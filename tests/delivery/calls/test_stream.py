"""Streams on a real server: chunks in order, an end when the receiver has gone, and a refusal
instead of silence.
"""

import asyncio
from contextlib import AsyncExitStack

import pytest

from router.core.errors import CallTimeout, ConnectionLost, NoResponders, StreamOverrun
from router.delivery.wire.calls.request_reply import TooLarge
from router.delivery.wire.calls.stream import PIECE_BYTES, ReplyStreams, Stream
from router.delivery.wire.connection import Connection
from tests.support.broker import Broker
from tests.support.delivery import connected
from tests.support.waiting import until


class Sender:
    """Answers each question with pieces, as many as it is told to; remembers who went away."""

    def __init__(self, connection: Connection, outlets: ReplyStreams) -> None:
        self._connection = connection
        self._outlets = outlets
        self.asked: asyncio.Queue[str] = asyncio.Queue()
        self.gone = asyncio.Event()

    async def at(self, subject: str) -> "Sender":
        await self._connection.subscribe_direct(
            subject, lambda _s, inbox, _d, _h: self.asked.put_nowait(inbox)
        )
        await self._connection.flush()
        return self

    async def flush(self) -> None:
        await self._connection.flush()

    async def begin(self):
        return self._outlets.open(await self.asked.get(), self.gone.set, {"version": "1"})


@pytest.fixture
async def place(nats_url: str):
    async with AsyncExitStack() as stack:
        ours, theirs = [await stack.enter_async_context(connected(nats_url)) for _ in range(2)]
        outlets = await stack.enter_async_context(ReplyStreams(theirs))
        yield ours, Sender(theirs, outlets), outlets


async def test_pieces_come_in_order_with_their_headers(place, prefix: str) -> None:
    ours, sender, outlets = place
    await sender.at(prefix)
    async with Stream(ours, prefix, b"count", silence_s=5) as pieces:
        with await sender.begin() as outlet:
            for number in range(100):
                outlet.send(str(number).encode())
            heard = [await anext(pieces) for _ in range(100)]
    assert [int(piece.data) for piece in heard] == list(range(100))
    assert heard[0].headers == {"version": "1"}
    assert len(outlets) == 0


async def test_a_reader_that_leaves_ends_the_stream(place, prefix: str) -> None:
    ours, sender, _ = place
    await sender.at(prefix)
    async with Stream(ours, prefix, b"", silence_s=5) as pieces:
        outlet = await sender.begin()
        outlet.send(b"1")
        await anext(pieces)
        assert not sender.gone.is_set()
    outlet.send(b"2")
    await asyncio.wait_for(sender.gone.wait(), 60)


async def test_what_came_and_was_not_read_can_be_taken_afterwards(place, prefix: str) -> None:
    """Its sender has done it: what it sent before the server knew that its reader has left, too."""
    ours, sender, _ = place
    await sender.at(prefix)
    stream = Stream(ours, prefix, b"", silence_s=5)
    async with stream as pieces:
        outlet = await sender.begin()
        for number in range(20):
            outlet.send(str(number).encode())
        assert (await anext(pieces)).data == b"0"
        outlet.send(b"20")
        await sender.flush()  # the server has it: it is on its way
    assert [int(piece.data) for piece in stream.take_unread()] == list(range(1, 21))
    assert list(stream.take_unread()) == []


async def test_a_reader_that_dies_ends_the_stream(place, prefix: str) -> None:
    ours, sender, _ = place
    await sender.at(prefix)
    stream = await Stream(ours, prefix, b"", silence_s=5).__aenter__()
    outlet = await sender.begin()
    outlet.send(b"1")
    await anext(stream)
    await ours.close()
    await until(lambda: outlet.send(b"2") or sender.gone.is_set())


async def test_silence_between_pieces_is_a_timeout(place, prefix: str) -> None:
    ours, sender, _ = place
    await sender.at(prefix)
    async with Stream(ours, prefix, b"", silence_s=60) as pieces:
        (await sender.begin()).send(b"1")
        await anext(pieces)
        pieces._silence_s = 0.05
        with pytest.raises(CallTimeout):
            await anext(pieces)


async def test_without_a_listener_the_call_fails_at_once(place, prefix: str) -> None:
    async with Stream(place[0], f"{prefix}.unserved", b"", silence_s=60) as pieces:
        with pytest.raises(NoResponders):
            await asyncio.wait_for(anext(pieces), 30)


async def test_a_request_above_the_servers_limit_is_not_sent(place, prefix: str) -> None:
    ours, sender, _ = place
    await sender.at(prefix)
    with pytest.raises(TooLarge):
        await Stream(ours, prefix, b"x" * (ours.max_payload + 1), silence_s=5).__aenter__()
    await ours.flush()
    assert (ours.is_connected, sender.asked.qsize()) == (True, 0)


async def test_a_reader_that_is_far_behind_is_told_what_it_missed(
    place, prefix: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("router.delivery.wire.calls.stream.MAX_BUFFERED_BYTES", 10)
    ours, sender, _ = place
    await sender.at(prefix)
    async with Stream(ours, prefix, b"", silence_s=5) as pieces:
        outlet = await sender.begin()
        for _ in range(3):
            outlet.send(b"four")
        assert [(await anext(pieces)).data, (await anext(pieces)).data] == [b"four", b"four"]
        with pytest.raises(StreamOverrun):
            await anext(pieces)


async def test_streams_share_the_room_for_what_is_not_read(
    place, prefix: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A stream has its own bytes, and what another one read is there for it again."""
    monkeypatch.setattr("router.delivery.wire.calls.stream.OWN_BYTES", 0)
    ours, sender, _ = place
    room = SmallRoom(3 * (PIECE_BYTES + 4))
    await sender.at(prefix)
    async with Stream(ours, prefix, b"", silence_s=5, room=room) as pieces:
        outlet = await sender.begin()
        for _ in range(3):
            outlet.send(b"four")
        heard = [(await anext(pieces)).data for _ in range(3)]
        assert (heard, room.left) == ([b"four"] * 3, room.most)
        for _ in range(4):
            outlet.send(b"four")
        for _ in range(3):
            await anext(pieces)
        with pytest.raises(StreamOverrun):
            await anext(pieces)
    assert room.left == room.most


class SmallRoom:
    def __init__(self, most: int) -> None:
        self.most = self.left = most

    def take(self, size: int) -> bool:
        has_room = size <= self.left
        self.left -= size if has_room else 0
        return has_room

    def give_back(self, size: int) -> None:
        self.left += size


@pytest.mark.parametrize("comes_back", [False, True], ids=["away", "back"])
async def test_a_lost_connection_breaks_the_stream_long_before_silence_would(
    comes_back: bool,
) -> None:
    with Broker() as broker:
        async with (
            connected(broker.url) as ours,
            connected(broker.url) as theirs,
            ReplyStreams(theirs) as outlets,
        ):
            sender = await Sender(theirs, outlets).at("lost")
            async with Stream(ours, "lost", b"", silence_s=60) as pieces:
                (await sender.begin()).send(b"1")
                await anext(pieces)
                reading = asyncio.create_task(anext(pieces))
                broker.kill()
                await until(lambda: not ours.is_connected)
                if comes_back:
                    broker.start()
                    await until(lambda: ours.is_connected)
                with pytest.raises(ConnectionLost):
                    await asyncio.wait_for(reading, 60)


async def test_what_comes_after_a_lost_connection_is_not_taken_for_the_next_piece() -> None:
    with Broker() as broker:
        async with connected(broker.url) as ours, Stream(ours, "lost", b"", silence_s=5) as pieces:
            ours.stats["reconnects"] += 1
            pieces._on_message("", "", b"3", None)
            with pytest.raises(ConnectionLost):
                await anext(pieces)
