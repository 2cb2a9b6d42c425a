"""The transport of a connection: nats-py's stream, and a shortcut for messages.

A stream costs two turns of the event loop for each chunk: one wakes its reader, one reads. If the
stream is empty and its reader waits, a chunk goes to a plain function in the turn in which it
arrives. The bytes that this function returns (a PING, an error, a message without a direct
subscription) go through the stream, and so does everything after them, until the reader has caught
up.

    chunk ── the stream holds bytes ──> stream ──> nats-py's reader ──> parser
        └── the reader waits ────────> hear ── bytes that it returns ──┘
"""

from __future__ import annotations

import asyncio
import ssl
from collections.abc import Callable
from typing import Any
from urllib.parse import ParseResult

from nats.aio.transport import TcpTransport

from router.delivery.wire.ping_schedule import TransportProgress

# asyncio flushes a closed transport for as long as the peer lets it wait.
RECONNECT_CLOSE_S = 0.5  # the server seems to be gone
LAST_CLOSE_S = 10.0  # a slow link may need it for the last messages
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
