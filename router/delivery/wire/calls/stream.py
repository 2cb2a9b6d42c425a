"""One request, many pieces: the reading end of a stream, and the sending end, which learns when no
reader listens.

    async with Stream(connection, subject, data, head, silence_s=5.0) as pieces:
        async for piece in pieces: ...                    the reader knows which piece is the last,
                                                          and leaves
    pieces.take_unread()                                  what the sender had sent before the server
                                                          knew that it left

Each stream has a subscription, which ends with it: from then on the server tells the sender that
there is no responder (`ReplyStreams`), so a reader that is cancelled, or dies, stops its stream
without sending anything. Pieces come in order or the stream breaks: a loss by a lost connection
always raises.
"""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Callable, Iterator
from functools import partial
from typing import Protocol, Self

from msgspec import Struct

from router.contracts.extension import TICK
from router.core.errors import (
    BrokerUnavailable,
    CallTimeout,
    ConnectionLost,
    NoResponders,
    RouterError,
    StreamOverrun,
)
from router.core.ids import random_tokens
from router.delivery.wire.calls.request_reply import TooLarge
from router.delivery.wire.connection import Connection, head_of
from router.delivery.wire.frames import Headers

CONNECTION_CHECK_S = 0.25  # how soon a lost connection is noticed by who waits for a piece
_TICK_HEAD = head_of({TICK: "0"})
MAX_BUFFERED_BYTES = 8 * 1024 * 1024  # bytes that a reader may be behind
OWN_BYTES = 64 * 1024  # of these, without asking for room
PIECE_BYTES = 256  # of memory, beside a piece's own
NO_HEADERS: Headers = {}


class StreamPiece(Struct, frozen=True):
    data: bytes
    headers: Headers


class StreamRoom(Protocol):
    """Memory that streams share, for pieces that their readers have not read yet."""

    def take(self, size: int) -> bool:
        """Whether there was so much left."""

    def give_back(self, size: int) -> None: ...


class AmpleRoom:
    """Of a program whose readers are its own: MAX_BUFFERED_BYTES bounds each."""

    def take(self, size: int) -> bool:
        return True

    def give_back(self, size: int) -> None:
        """It counts none."""


AMPLE_ROOM = AmpleRoom()


class Stream:
    """`silence_s`: seconds without a piece after which it is given up, the first one included.

    `leaves_at_once`: its reader does not ask for what came unread, so its end does not wait for it.
    """

    def __init__(
        self,
        connection: Connection,
        subject: str,
        data: bytes,
        head: bytes = b"",
        *,
        silence_s: float,
        leaves_at_once: bool = False,
        room: StreamRoom = AMPLE_ROOM,
    ) -> None:
        self._connection = connection
        self._question = (subject, data, head)
        self._silence_s = silence_s
        self._leaves_at_once = leaves_at_once
        self._room = room
        self._lives = connection.reconnect_count
        self._sid: int | None = None
        self._waiting: deque[StreamPiece] = deque()
        self._size, self._borrowed = 0, 0
        self._broken: RouterError | None = None
        self._news: asyncio.Future[None] | None = None
        self._silent_at = 0.0
        # one for all pieces: a timer for each would cost more than the piece
        self._timer: asyncio.TimerHandle | None = None

    async def __aenter__(self) -> Self:
        """Ask. Raises BrokerUnavailable, TooLarge: nothing was sent."""
        if not self._connection.is_connected:
            raise BrokerUnavailable("not connected")
        subject, data, head = self._question
        require_fit(self._connection, head, data)
        inbox = self._connection.new_inbox()
        self._sid = await self._connection.subscribe_direct(inbox, self._on_message)
        self._connection.publish_nowait(subject, data, inbox, head)
        return self

    async def __aexit__(self, *_: object) -> None:
        if self._timer is not None:
            self._timer.cancel()
        try:
            if self._sid is not None:
                await self._connection.unsubscribe(self._sid, at_once=self._leaves_at_once)
        finally:
            self._borrow(0, 0)

    def __aiter__(self) -> Self:
        return self

    async def __anext__(self) -> StreamPiece:
        """The next piece. Raises CallTimeout, NoResponders, ConnectionLost, StreamOverrun; it never
        ends by itself.
        """
        if not self._waiting and self._broken is None:
            await self._wait_for_news()
        if self._waiting:
            piece = self._waiting.popleft()
            self._size -= len(piece.data)
            self._borrow(self._size, len(self._waiting))
            return piece
        raise self._broken or CallTimeout(f"nothing was heard for {self._silence_s:g} s")

    def take_unread(self) -> Iterator[StreamPiece]:
        """What came and was not read. Once the stream is left nothing is added; before, there is
        never more than MAX_BUFFERED_BYTES.
        """
        while self._waiting:
            yield self._waiting.popleft()

    @property
    def _is_cut(self) -> bool:
        """Whether pieces may have been lost: a server that went away takes what it had not sent
        with it.
        """
        return self._connection.reconnect_count != self._lives or not self._connection.is_connected

    async def _wait_for_news(self) -> None:
        """Something came, the connection was lost, or nothing was heard for too long."""
        if not self._is_cut and self._silence_s > 0:
            loop = asyncio.get_running_loop()
            self._news, self._silent_at = loop.create_future(), loop.time() + self._silence_s
            if self._timer is None:
                self._look_later(self._silence_s)
            try:
                await self._news
            finally:
                self._news = None
        if self._is_cut and not self._waiting:
            self._broken = self._broken or _cut()

    def _look_later(self, within_s: float) -> None:
        loop = asyncio.get_running_loop()
        self._timer = loop.call_later(min(within_s, CONNECTION_CHECK_S), self._look)

    def _look(self) -> None:
        """Wake who waits, where waiting is in vain. It runs on only while a reader waits."""
        self._timer = None
        if self._news is None or self._news.done():
            return
        left_s = self._silent_at - asyncio.get_running_loop().time()
        if left_s <= 0 or self._is_cut:
            self._news.set_result(None)
        else:
            self._look_later(left_s)

    def _on_message(self, _subject: str, _reply: str, data: bytes, headers: Headers | None) -> None:
        if self._broken is not None:
            return
        if self._is_cut:
            self._broken = _cut()
        elif not data and headers is not None and TICK in headers:
            return  # it says nothing but that the sender is there
        elif not data and headers is not None and headers.get("Status") == "503":
            self._broken = NoResponders("no responders")
        elif not self._make_room(self._size + len(data)):
            self._broken = StreamOverrun(f"the reader is {self._size} bytes behind")
        else:
            self._size += len(data)
            self._waiting.append(StreamPiece(data, headers or NO_HEADERS))
        if self._news is not None and not self._news.done():
            self._news.set_result(None)

    def _make_room(self, size: int) -> bool:
        """Whether so much may wait for the reader; of the room, a single piece needs none."""
        pieces = len(self._waiting)
        return size <= MAX_BUFFERED_BYTES and (self._borrow(size, pieces + 1) or not pieces)

    def _borrow(self, size: int, pieces: int) -> bool:
        """Have as much of the room as these need, more or less than before. Returns whether it was
        there.
        """
        more = max(size + pieces * PIECE_BYTES - OWN_BYTES, 0) - self._borrowed
        if more > 0 and not self._room.take(more):
            return False
        if more < 0:
            self._room.give_back(-more)
        self._borrowed += more
        return True


def require_fit(connection: Connection, head: bytes, data: bytes) -> None:
    """Raises TooLarge: for a request above its limit, the server would close the connection."""
    if (size := len(head) + len(data)) > connection.max_payload:
        raise TooLarge(
            f"a request of {size} bytes is above the server's limit of {connection.max_payload}"
        )


def _cut() -> ConnectionLost:
    return ConnectionLost("the connection was lost while the stream ran")


# -- The sending end of streams: pieces go to an inbox until the last one, or until no reader
# listens there.
#
# Core NATS does not say that a subscriber went away. But a message with a reply subject that
# finds no subscriber is answered by the server, on that reply subject, with 503. So every piece
# names one, and the first piece after the reader left (or died) ends the stream. A reader may
# also say so itself: whatever arrives there means "no more". A reader that asks for ticks
# (`contracts.extension.TICK`) gets an empty message in each span without a piece, so that a sender
# learns that it left before the first piece, too.
#
# piece ── to: the reader's inbox ── reply: {ours}.{token} ──> the reader listens: no reply
#                                                              no reader:          503 on {ours}.{token} ──> on_reader_gone()


class ReplyStreams:
    """One inbox for all streams that are sent over one connection."""

    def __init__(self, connection: Connection) -> None:
        self._connection = connection
        self._inbox = connection.new_inbox()
        self._sid: int | None = None
        # a reader sees the token of its own stream: it must not lead to those of others
        self._tokens = random_tokens()
        self._on_reader_gone: dict[str, Callable[[], object]] = {}

    async def __aenter__(self) -> Self:
        self._sid = await self._connection.subscribe_direct(f"{self._inbox}.*", self._on_message)
        return self

    async def __aexit__(self, *_: object) -> None:
        if self._sid is not None:
            await self._connection.unsubscribe(self._sid)

    def open(
        self,
        to: str,
        on_reader_gone: Callable[[], object],
        headers: Headers,
        tick_s: float | None = None,
    ) -> ReplyStream:
        """A stream to the inbox `to`, a checked address; `on_reader_gone` is called once when no
        reader listens there. `tick_s`: as the reader asked for.
        """
        token = next(self._tokens)
        self._on_reader_gone[token] = on_reader_gone
        post = partial(self._connection.publish_nowait, to, reply=f"{self._inbox}.{token}")
        return ReplyStream(
            partial(post, head=head_of(headers)),
            lambda: self._on_reader_gone.pop(token, None),
            partial(post, b"", head=_TICK_HEAD),
            tick_s,
        )

    def __len__(self) -> int:
        return len(self._on_reader_gone)

    def _on_message(
        self, subject: str, _reply: str, _data: bytes, _headers: Headers | None
    ) -> None:
        gone = self._on_reader_gone.pop(subject.rpartition(".")[2], None)
        if gone is not None:
            gone()


class ReplyStream:
    """One stream being sent. Close it when the last piece is sent."""

    def __init__(
        self,
        send: Callable[[bytes], None],
        close: Callable[[], object],
        tick: Callable[[], None],
        tick_s: float | None,
    ) -> None:
        self._send = send
        self._close = close
        self._tick = tick
        self._tick_s = tick_s
        self._has_sent = False  # since the last tick
        self._timer: asyncio.TimerHandle | None = None

    def __enter__(self) -> Self:
        self._wait()
        return self

    def __exit__(self, *_: object) -> None:
        if self._timer is not None:
            self._timer.cancel()
        self._close()

    def send(self, data: bytes) -> None:
        self._has_sent = True
        self._send(data)

    def _wait(self) -> None:
        if self._tick_s is not None:
            loop = asyncio.get_running_loop()
            self._timer = loop.call_later(self._tick_s, self._on_time)

    def _on_time(self) -> None:
        has_sent, self._has_sent = self._has_sent, False
        if not has_sent:
            self._tick()
        self._wait()
