"""From the socket to frames: the transport of a connection with its shortcut, and the parser that
splits a chunk into messages of the NATS protocol.

A chunk holds dozens of frames. nats-py's parser matches each control line with two regular
expressions and moves the rest of the buffer after each frame, which costs more. A message of a
direct subscription goes straight to its callback; nats-py's own parser gets everything that is not
a message (PING, INFO, -ERR), line by line.

    MSG  <subject> <sid> [reply] <size>\\r\\n<payload>\\r\\n
    HMSG <subject> <sid> [reply] <header size> <total size>\\r\\n<headers><payload>\\r\\n
"""

from __future__ import annotations

import asyncio
import re
import ssl
from collections.abc import Callable, Iterator
from typing import Any
from urllib.parse import ParseResult

from nats.aio.transport import TcpTransport
from nats.errors import ProtocolError
from nats.protocol.parser import Parser

from router.core.header_names import READ_HEADERS, collect_headers, restore_case
from router.delivery.wire.ping_schedule import TransportProgress

Headers = dict[str, str]

MESSAGES = b"HM"  # how the lines of messages begin


class FrameParser(Parser):
    """nats-py's parser with a faster way for message frames; `nc` is a `Connection`."""

    def __init__(self, nc: Any) -> None:
        super().__init__(nc)
        self._needed = 0  # bytes of the incomplete frame at the front of the buffer
        self._stray: _Stray | None = None  # the message at which `dispatch` stopped

    def reset(self) -> None:
        super().reset()
        self._needed = 0
        self._stray = None

    async def parse(self, data: bytes = b"") -> None:
        data, at = self.feed(data), 0
        try:
            while (at := self.dispatch(data, at)) < len(data):
                at = await self._parse_other(data, at)
        except (ProtocolError, OSError):
            raise
        except Exception as exc:  # it would end nats-py's reader for ever
            self.nc.on_fault(exc)
            raise ProtocolError("nats: a callback failed within a chunk") from exc

    def feed(self, data: bytes) -> bytes:
        """The chunk, preceded by the incomplete frame of earlier ones; empty while that frame is
        incomplete.
        """
        if not self.buf and not self._needed:
            return data
        self.buf += data
        if len(self.buf) < self._needed:
            return b""
        data, self._needed = bytes(self.buf), 0
        self.buf.clear()
        return data

    def dispatch(self, data: bytes, at: int = 0) -> int:  # noqa: PLR0912 - once a frame
        """Call the callback of each complete frame of a direct subscription; keep an incomplete
        one. Returns the first other's offset.
        """
        callbacks, takers = self.nc.callbacks, self.nc.takers
        while True:
            if (end := data.find(b"\r\n", at)) < 0:
                break
            part = data[at:end].split(b" ")
            body = middle = end + 2
            kind, reply = part[0], b""
            try:  # to unpack the line costs less than to look at its parts by number
                if kind == b"MSG":
                    if len(part) == 4:
                        _, subject, number, size = part
                    else:
                        _, subject, number, reply, size = part
                elif kind == b"HMSG":
                    if len(part) == 5:
                        _, subject, number, head, size = part
                    else:
                        _, subject, number, reply, head, size = part
                    middle += int(head)
                else:
                    self._stray = None
                    return at
                sid, after = int(number), body + int(size) + 2
            except ValueError:
                self._stray = None
                return at
            if after > len(data):
                self._needed = after - at
                break
            if sid in takers and (taken := takers[sid](data, at)) > at:
                at = taken
                continue
            dispatch = callbacks.get(sid)
            if dispatch is None:
                self._stray = (
                    (sid, subject, reply, data[middle : after - 2], data[body:middle]),
                    after,
                )
                return at
            at = after
            dispatch(
                subject,
                reply,
                data[middle : after - 2],
                data[body:middle] if middle > body else None,
            )
        self.buf += data[at:]
        return len(data)

    async def _parse_other(self, data: bytes, at: int) -> int:
        """Parse what `dispatch` stopped at: a protocol line, or a message without a direct
        subscription. Returns the next offset.
        """
        if data[at] in MESSAGES:
            if self._stray is None:
                raise ProtocolError("nats: malformed message frame")
            (frame, after), self._stray = self._stray, None
            await self.nc._process_msg(*frame)
            return after
        end = data.find(b"\r\n", at) + 2
        if data.startswith(b"-ERR", at):
            self.nc.on_error_line(data[at:end].decode("utf-8", "replace"))
        self.buf += data[at:end]
        await super().parse()
        self.buf.clear()
        return end


# Nearly all messages and answers of the server have these alone, so that no name of theirs is
# looked at.
PLAIN_NAMES = READ_HEADERS | {
    *("Nats-Msg-Id", "Nats-Expected-Stream", "Status", "Description"),
    *(
        "Nats-Stream",
        "Nats-Subject",
        "Nats-Sequence",
        "Nats-Time-Stamp",
        "Nats-Last-Sequence",
        "Nats-Num-Pending",
    ),
}

# the arguments of nats-py's `_process_msg`, and the frame's end
_Stray = tuple[tuple[int, bytes, bytes, bytes, bytes], int]


def parse_head(raw: bytes) -> Headers | None:
    """A header block as a dict; it never raises. The first of equal names wins, as in the server's
    deduplication; the others stand beside it (`core.header_names`).

    A name that Router reads stands there as Router writes it, whatever case the sender chose
    (`core.header_names`).
    """
    text = raw.decode("utf-8", "replace")
    if text.startswith("NATS/1.0\r\n") and text.endswith("\r\n\r\n"):
        out: Headers = {}
        lines = text[10:-4].split("\r\n")
        for line in lines:  # nearly always `name: value`
            name, _, value = line.partition(": ")
            if not value:
                return _restore_names(_parse_odd_head(text))
            # cheaper than to look beforehand whether a value has space around it
            out[name] = value.strip()
        if len(out) == len(lines):  # each name once
            if PLAIN_NAMES.issuperset(out):
                return out
            if ":" not in "".join(out):  # each name ended by its first colon
                return restore_case(out)
    return _restore_names(_parse_odd_head(text))


def _restore_names(headers: Headers | None) -> Headers | None:
    return restore_case(headers) if headers else headers


class PlainFrames:
    """The messages of one subscription that have no header but a `Nats-Msg-Id`, undecoded: the form
    of a flood.
    """

    def __init__(self, sid: int) -> None:
        begin = rb"MSG [^ \r]++ %d (?:([^ \r]++) )?" % sid
        self._match_begin = re.compile(rb"H?MSG [^ \r]++ %d " % sid).match
        head = rb"NATS/1\.0\r\nNats-Msg-Id: ([\x21-\x7e]++)\r\n\r\n"
        self._match_headed = re.compile(
            b"H" + begin + rb"(\d{1,9}) (\d{1,9})\r\n(" + head + b")"
        ).match
        self._match_bare = re.compile(begin + rb"(\d{1,9})\r\n").match

    def is_at(self, data: bytes, at: int) -> bool:
        """Whether a message of the subscription begins there."""
        return self._match_begin(data, at) is not None

    def read(self, data: bytes, at: int) -> Iterator[PlainFrame]:
        """Those that follow one another in a chunk from an offset on; the first frame of another
        kind, or an incomplete one, ends them.
        """
        match_headed, match_bare, last = self._match_headed, self._match_bare, len(data) - 2
        while True:
            if (match := match_headed(data, at)) is not None:
                body = match.end()
                reply, head_size, size, head, msg_id = match.groups()
                after = body + int(size) - len(head)
                if len(head) != int(head_size) or after < body:
                    return
            elif (match := match_bare(data, at)) is not None:
                body = match.end()
                (reply, size), msg_id = match.groups(), None
                after = body + int(size)
            else:
                return
            if after > last:
                return
            at = after + 2
            yield reply, data[body:after], msg_id, at


# reply, data, message id, the offset behind the frame
PlainFrame = tuple[bytes | None, bytes, bytes | None, int]
# reads a chunk from an offset on; returns the offset behind the frames that it took
TakeFrames = Callable[[PlainFrames, bytes, int], int]


def _parse_odd_head(text: str) -> Headers | None:
    return collect_headers(_read_odd_lines(text)) or None


def _read_odd_lines(text: str) -> Iterator[tuple[str, str]]:
    first, *lines = text.split("\r\n")
    yield from zip(("Status", "Description"), first[8:].split(None, 1), strict=False)
    for line in lines:
        name, colon, value = line.partition(":")
        if colon:
            yield name, value.strip()


# -- The transport of a connection: nats-py's stream, and a shortcut for messages.
#
# A stream costs two turns of the event loop for each chunk: one wakes its reader, one reads. If
# the stream is empty and its reader waits, a chunk goes to a plain function in the turn in which
# it arrives. The bytes that this function returns (a PING, an error, a message without a direct
# subscription) go through the stream, and so does everything after them, until the reader has
# caught up.
#
#     chunk ── the stream holds bytes ──> stream ──> nats-py's reader ──> parser
#         └── the reader waits ────────> hear ── bytes that it returns ──┘


# asyncio flushes a closed transport for as long as the peer lets it wait.
RECONNECT_CLOSE_S = 0.5  # the server seems to be gone
LAST_CLOSE_S = 10.0  # a slow link may need it for the last messages
# In one read, and handled in one callback: asyncio's own 256 KiB are hundreds of requests, which
# hold the loop, and each other's answers, for 10 ms and longer. Under TLS asyncio's size stays.
READ_BYTES = 64 * 1024
Hear = Callable[[bytes], bytes]  # takes a chunk, returns the bytes for the reader


class DirectProtocol(asyncio.StreamReaderProtocol):
    """A stream's protocol with the shortcut. `held`: bytes in the stream that nats-py has not read."""

    def __init__(self, limit: int) -> None:
        self.reader = asyncio.StreamReader(limit=limit)
        super().__init__(self.reader)
        self.held = 0
        self.hear: Hear | None = None
        self.has_heard = False  # since `take_progress` looked

    def data_received(self, data: bytes) -> None:
        self.has_heard = True
        if self.hear is not None:
            data = self.hear(data)
            if not data:
                return
            self.hear = None
        self.held += len(data)
        super().data_received(data)


class DirectTransport(TcpTransport):
    """TCP, with or without TLS. `hear` gets chunks while nats-py's reader waits for one."""

    _io_writer: Any
    _protocol: DirectProtocol

    def __init__(self, hear: Hear) -> None:
        super().__init__()  # type: ignore[no-untyped-call]
        self._hear = hear
        self.close_s = RECONNECT_CLOSE_S

    def __bool__(self) -> bool:
        return True  # nats-py replaces a falsy transport with its own

    async def connect(self, uri: ParseResult, buffer_size: int, connect_timeout: float) -> None:
        if self._io_writer is not None:
            # of an attempt that failed late: the server would go on sending to it
            self._io_writer.transport.abort()
        protocol = DirectProtocol(buffer_size)
        async with asyncio.timeout(connect_timeout):
            transport, _ = await asyncio.get_running_loop().create_connection(
                lambda: protocol, uri.hostname or "", uri.port or 0
            )
        transport.max_size = READ_BYTES  # type: ignore[attr-defined]  # of selectors' transports
        self._stand_on(protocol, transport)
        self._bare_io_reader, self._bare_io_writer = self._io_reader, self._io_writer

    async def connect_tls(
        self,
        uri: str | ParseResult,
        ssl_context: ssl.SSLContext,
        buffer_size: int,
        connect_timeout: float,
    ) -> None:
        protocol, name = DirectProtocol(buffer_size), uri if isinstance(uri, str) else uri.hostname
        async with asyncio.timeout(connect_timeout):
            loop, bare = asyncio.get_running_loop(), self._io_writer.transport
            transport = await loop.start_tls(bare, protocol, ssl_context, server_hostname=name)
        self._stand_on(protocol, transport)

    def _stand_on(self, protocol: DirectProtocol, transport: Any) -> None:
        self._protocol, self._io_reader = protocol, protocol.reader
        self._io_writer = asyncio.StreamWriter(
            transport, protocol, protocol.reader, asyncio.get_running_loop()
        )
        self._written = self._taken = self._seen_written = 0
        self._was_full = False

    async def read(self, buffer_size: int) -> bytes:
        """nats-py's reader calls it when it has parsed everything it read before. If the stream is
        empty, the shortcut opens.
        """
        protocol = self._protocol
        if protocol.held == 0:
            protocol.hear = self._hear
        data = await protocol.reader.read(buffer_size)
        protocol.held -= len(data)
        return data

    async def readline(self) -> bytes:
        line = await self._protocol.reader.readline()
        self._protocol.held -= len(line)
        return line

    async def wait_closed(self) -> None:
        """Give the server `close_s` to receive what was written, then abort: a machine that
        vanished never answers.
        """
        try:
            async with asyncio.timeout(self.close_s):
                await super().wait_closed()  # type: ignore[no-untyped-call]
        except TimeoutError:
            self._io_writer.transport.abort()

    def writelines(self, payload: list[bytes]) -> None:
        """Raises ConnectionResetError on a closing transport, which would drop the bytes: they stay
        pending for the next connection.
        """
        if self._io_writer.transport.is_closing():
            raise ConnectionResetError("the connection is closing")
        data = b"".join(payload)
        self._written += len(data)
        # `writelines` of Python 3.12 does not pause the writer when the socket is full
        self._io_writer.write(data)

    def take_progress(self, *, has_pong: bool) -> TransportProgress:
        """What happened since the last call. A socket that was full and took bytes shows that the
        server reads.
        """
        protocol, left = self._protocol, self._io_writer.transport.get_write_buffer_size()
        before, self._taken = self._taken, self._written - left
        written, self._seen_written = self._seen_written, self._written
        progress = TransportProgress(
            protocol.has_heard,
            self._was_full and self._taken > before,
            self._written > written,
            has_pong,
        )
        protocol.has_heard, self._was_full = False, left > 0
        return progress

    @property
    def is_idle(self) -> bool:
        """Whether the write buffer is empty, so that bytes written now go out at once."""
        transport = self._io_writer.transport
        return not transport.is_closing() and transport.get_write_buffer_size() == 0
