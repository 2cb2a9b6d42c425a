"""The NATS connection: a client of nats-py whose reader no message can stop, with a fast way in and
out.

nats-py's reader task ends for ever if building a message raises, and JetStream *stores* such
messages, so a single malformed header block would stop every router for good
(docs/explanation/durability.md#reader). Here no received byte can make the reader raise. On the hot
path `subscribe_direct` calls a plain function from the reader (no queue, task or object per
message), and `publish_nowait` appends a frame to the write buffer.

This overrides private methods of nats-py, so its minor version is pinned, and
tests/delivery/test_connection.py covers each of them.
"""

from __future__ import annotations

import asyncio
import contextlib
import math
import re
from collections.abc import Awaitable, Callable, Iterable, Mapping
from functools import partial
from typing import Any
from urllib.parse import unquote

import nats.errors
import orjson
from nats.aio.client import Client
from nats.aio.msg import Msg
from nats.nuid import NUID
from nats.protocol.parser import PERMISSIONS_ERR

from router.core.cancellation import preserve_cancellation
from router.core.clock import steady
from router.core.header_names import RepeatedHeaders, list_lines
from router.core.ids import random_tokens
from router.delivery.wire import denials, tls
from router.delivery.wire.frames import (
    LAST_CLOSE_S,
    READ_BYTES,
    DirectTransport,
    FrameParser,
    Headers,
    PlainFrames,
    TakeFrames,
    parse_head,
)
from router.delivery.wire.reconnecting import ReconnectingClient

OnMessage = Callable[[str, str, bytes, Headers | None], None]  # subject, reply, data, headers
# subject, reply, data, header block, as they came
OnRawMessage = Callable[[bytes, bytes, bytes, bytes | None], None]

# reads that were as large as they can be, in a row, and held so much: more bytes wait in the socket
BEHIND_BYTES = 256 * 1024
# header blocks of requests that were heard and not pulled yet; a later one is parsed again
MAX_HEADS = 1024
MAX_HEAD_BYTES = 1024  # of one
# seconds that a server may take to confirm what is sent last: an unsubscription, the answers of a
# drain
LAST_FLUSH_S = 2.0

CONNECT = b"CONNECT "
LOGIN_FIELDS = ("user", "pass", "auth_token")
_LINE_BREAKS = re.compile(r"[\r\n]+")


class _InboxNames(NUID):
    """Random names. nats-py's count on from a random start, so a client that sees one inbox could
    guess the next ones.
    """

    def __init__(self) -> None:
        self._tokens = random_tokens()
        self.stem = next(self._tokens)  # this connection's

    def next(self) -> bytearray:
        return bytearray(f"{self.stem}{next(self._tokens)}".encode())


class Connection(ReconnectingClient):
    """A nats-py client whose headers never raise; `subscribe_direct` and `publish_nowait` are the
    fast way in and out.
    """

    def __init__(self) -> None:
        super().__init__()
        self._nuid: _InboxNames = _InboxNames()
        # of requests heard lately, whose stored copies come with the same header block
        self._heads: dict[bytes, Headers] = {}
        self.callbacks: dict[int, OnRawMessage] = {}  # by subscription, read by the parser
        # by subscription: they get a chunk before the parser reads on
        self.takers: dict[int, Callable[[bytes, int], int]] = {}
        self._ps = self._wire = FrameParser(self)
        self._flushed: asyncio.Future[None] | None = None
        self._will_write = False  # a call of `_write` is scheduled
        # a callback of this chunk has: what the task publishes goes out with what the callbacks did
        self.has_woken_task = False
        self.is_behind = False  # requests come faster than they are read
        self._full_bytes = 0  # of the newest reads, if each was as large as it can be
        self.on_fault: Callable[[BaseException], None] = lambda _: None
        # whether another connection to the same servers is opened
        self.can_open_another: Callable[[], Awaitable[bool]] = _open_none
        self.denials = denials.Denials(denials.log_denial)
        self.limit: str | None = None  # that the server enforced last, in its words
        self.limited_at = -math.inf  # steady seconds, of the last time
        self.on_limit: Callable[[str], None] = denials.log_limit

    def _connect_command(self) -> bytes:
        """nats-py sends the login of an address as it is written there. It is decoded here, so that
        it may hold any character.
        """
        command: bytes = super()._connect_command()
        at = self._current_server.uri if self._current_server is not None else None
        if (
            at is None
            or "%" not in at.netloc
            or self.options["user"] is not None
            or self.options["token"] is not None
        ):
            return command
        options = orjson.loads(command.removeprefix(CONNECT))
        login = {name: unquote(value) for name, value in options.items() if name in LOGIN_FIELDS}
        return CONNECT + orjson.dumps({**options, **login}) + b"\r\n"

    @property
    def own_inboxes(self) -> str:
        """The prefix of every inbox of this connection, and of no other. No answer to a request is
        sent there.
        """
        return f"{self._inbox_prefix.decode()}.{self._nuid.stem}"

    @property
    def wants_login(self) -> bool:
        """Whether the server accepts no client without a login."""
        return bool(self._server_info.get("auth_required"))

    @property
    def is_in_cluster(self) -> bool:
        """Whether its server is one of several, so that it may be cut off from the others."""
        return bool(self._server_info.get("cluster"))

    @property
    def reconnect_count(self) -> int:
        """How often the client reconnected. `is_connected` alone misses a server that restarts in
        milliseconds.
        """
        return self.stats["reconnects"]

    async def subscribe_direct(
        self, subject: str, on_message: OnMessage, queue: str = "", take: TakeFrames | None = None
    ) -> int:
        """Subscribe a plain function that the reader calls; it must be short. Returns the
        subscription's id.

        `take` gets each chunk first, and takes plain messages out of it undecoded; it must not
        raise. `on_message` gets the others.
        """
        subscription = await self.subscribe(subject, queue=queue, cb=_ignore_message)
        self.callbacks[subscription._id] = partial(self._call_on_message, on_message)
        if take is not None:
            self.takers[subscription._id] = partial(take, PlainFrames(subscription._id))
        return subscription._id

    async def listen_direct(self, subject: str, on_message: OnMessage) -> int:
        """`subscribe_direct` to messages that a stream stores and this connection pulls: their
        headers are parsed once, not twice.
        """
        subscription = await self.subscribe(subject, cb=_ignore_message)
        self.callbacks[subscription._id] = partial(self._call_listener, on_message)
        return subscription._id

    async def subscribe_raw(self, subject: str, on_message: OnRawMessage) -> int:
        """`subscribe_direct` with undecoded bytes (subject, reply, data, header block), for readers
        of millions of messages.

        `on_message` must not raise: that would end the connection. It tells its own errors to
        `on_fault`.
        """
        subscription = await self.subscribe(subject, cb=_ignore_message)
        self.callbacks[subscription._id] = on_message
        return subscription._id

    async def require_permission(self, *subjects: str) -> None:
        """Flush, so that the server has seen the subscriptions to these subjects. Raises
        PermissionDenied for the first denied one.
        """
        denied: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        with contextlib.ExitStack() as awaited:
            for subject in subjects:
                awaited.enter_context(self.denials.watch(subject, denied))
            await self.flush()
        if denied.done():
            denied.result()
        for subject in subjects:
            if (earlier := self.denials.find(subject)) is not None:
                raise earlier

    async def unsubscribe(
        self, sid: int, *, at_once: bool = False, within_s: float = LAST_FLUSH_S
    ) -> None:
        """End a subscription. Unless `at_once`, messages that the server had sent by then, and that
        are read within `within_s`, are still delivered.
        """
        subscription = self._subs.get(sid)
        try:
            if subscription is not None and self.is_connected:
                with contextlib.suppress(nats.errors.Error, OSError):
                    await self._send_unsubscribe(sid)
                    if not at_once:
                        await self.flush_last(within_s)
        finally:
            self.callbacks.pop(sid, None)
            self.takers.pop(sid, None)
            if subscription is not None:
                subscription._stop_processing()
                self._remove_sub(sid)

    async def flush_last(self, within_s: float = LAST_FLUSH_S) -> None:
        """Flush for at most so long. It never fails: a server that hangs must not hold up a drain,
        nor make it an error.
        """
        with contextlib.suppress(nats.errors.Error, OSError):
            await self.flush(timeout=within_s)

    def publish_nowait(
        self, subject: str, data: bytes = b"", reply: str = "", head: bytes = b""
    ) -> None:
        """Append one PUB (or HPUB, with a block made by `head_of`) to the write buffer; it is
        written in this turn of the event loop.

        While reconnecting, the buffer is kept and sent afterwards, so a pull request must check
        `is_connected` first. The subject is not checked: a caller that got it from outside checks
        it with `ids.is_literal_subject`.
        """
        size = len(data)
        if head:
            head_size = len(head)
            size += head_size
            line = f"HPUB {subject} {reply} {head_size} {size}\r\n".encode()
            self._pending += (line, head, data, b"\r\n")
        else:
            line = f"PUB {subject} {reply} {size}\r\n".encode()
            self._pending += (line, data, b"\r\n")
        self._pending_data_size += len(line) + size + 2
        if not self._will_write:
            self._write_soon()

    def acknowledge(self, ack_subject: str) -> None:
        """`publish_nowait` of an acknowledgement: one piece of the buffer, because it is sent for
        each message.
        """
        frame = f"PUB {ack_subject}  4\r\n+ACK\r\n".encode()
        self._pending.append(frame)
        self._pending_data_size += len(frame)
        if not self._will_write:
            self._write_soon()

    def publish_many(self, messages: Iterable[tuple[bytes, bytes]]) -> None:
        """`publish_nowait` without reply and headers, of subjects and data: for answers to a flood."""
        frames = b"".join(
            [b"PUB %b  %d\r\n%b\r\n" % (subject, len(data), data) for subject, data in messages]
        )
        self._pending.append(frames)
        self._pending_data_size += len(frames)
        if not self._will_write:
            self._write_soon()

    def _dispatch_chunk(self, data: bytes) -> bytes:
        """Handle a chunk from the socket while nats-py's reader waits; returns the bytes that are
        not for direct subscriptions.
        """
        if not self.is_connected:
            return data
        self._full_bytes = self._full_bytes + len(data) if len(data) >= READ_BYTES else 0
        self.is_behind = self._full_bytes >= BEHIND_BYTES
        wire = self._wire
        data = wire.feed(data)
        self._will_write = True
        try:
            return data[wire.dispatch(data) :]
        except (Exception, asyncio.CancelledError) as exc:
            # a raw callback raised: the parser's position in the chunk is lost
            self.on_fault(exc)
            raise ConnectionResetError("a callback failed within a chunk") from exc
        finally:
            if self._pending and not self.has_woken_task:
                self._write()  # answers of the callbacks
            else:
                # after the tasks that were woken: their messages then go out in one write, the
                # callbacks' too
                self._write_soon()
            self.has_woken_task = False

    def _write_soon(self) -> None:
        asyncio.get_running_loop().call_soon(self._write)
        self._will_write = True

    def write_early(self) -> None:
        """Write the buffer before the rest of the chunk is handled; what is published after this is
        written at its end.
        """
        is_left = self._will_write
        self._write()
        self._will_write = is_left

    def _write(self) -> None:
        """Write the buffer in one call. If the socket is full, nats-py's flusher writes it, because
        that waits.
        """
        self._will_write = False
        if not self._pending or not self.is_connected:
            return
        transport = self._transport
        if isinstance(transport, DirectTransport) and transport.is_idle:
            pending, self._pending, self._pending_data_size = self._pending, [], 0
            transport.writelines(pending)
        elif self._flush_queue is not None and self._flush_queue.empty():
            self._flush_queue.put_nowait(self._get_flushed_future())

    def read_head(self, head: bytes) -> Headers | None:
        """A header block as a dict; it never raises. That of a request which was heard lately is
        parsed already.
        """
        return (self._heads.pop(head, None) if self._heads else None) or parse_head(head)

    def _call_on_message(  # noqa: PLR0917 - once a message
        self,
        on_message: OnMessage,
        subject: bytes,
        reply: bytes,
        data: bytes,
        head: bytes | None,
        headers: Headers | None = None,
    ) -> None:
        try:
            try:
                name, inbox = subject.decode(), reply.decode()
            except UnicodeDecodeError:
                name, inbox = subject.decode("utf-8", "replace"), ""
            if headers is None and head is not None:
                headers = self.read_head(head)
            on_message(name, inbox, data, headers)
        except (Exception, asyncio.CancelledError) as exc:
            # a callback raised, and the reader must go on
            self.on_fault(exc)  # callbacks handle their own errors before this

    def _call_listener(
        self, on_message: OnMessage, subject: bytes, reply: bytes, data: bytes, head: bytes | None
    ) -> None:
        headers = None
        if (
            head is not None
            and len(head) <= MAX_HEAD_BYTES
            and (headers := parse_head(head)) is not None
        ):
            if len(self._heads) >= MAX_HEADS:
                self._heads.clear()  # of requests that other instances pulled, most of them
            self._heads[head] = headers
        self._call_on_message(on_message, subject, reply, data, head, headers)

    def _get_flushed_future(self) -> asyncio.Future[None]:
        if self._flushed is None:  # one resolved future for all: it only wakes the flusher
            self._flushed = asyncio.get_running_loop().create_future()
            self._flushed.set_result(None)
        return self._flushed

    # -- overridden: on Python 3.11 they lose a cancellation (`cancelling`) ------------------------

    async def request(self, subject: str, *args: Any, **kwargs: Any) -> Msg:
        """nats-py's, but it raises PermissionDenied at once if the server denies the subject, or
        the inbox for the answer.
        """
        asking = asyncio.create_task(super().request(subject, *args, **kwargs))
        asking.add_done_callback(self._forget_request)
        denied: asyncio.Future[Msg] = asyncio.get_running_loop().create_future()
        try:
            with self.denials.watch(subject, denied):
                await asyncio.wait((asking, denied), return_when=asyncio.FIRST_COMPLETED)
        finally:
            asking.cancel()
        return asking.result() if asking.done() else denied.result()

    def _forget_request(self, asking: asyncio.Task[Msg]) -> None:
        if not asking.cancelled():
            # mark it as retrieved: the caller may have got PermissionDenied before it
            asking.exception()
            return
        for token in [token for token, future in self._resp_map.items() if future.cancelled()]:
            del self._resp_map[token]  # nats-py keeps the entry of a cancelled request

    async def flush(self, *args: Any, **kwargs: Any) -> None:
        await preserve_cancellation(super().flush(*args, **kwargs))

    # -- overridden: while it looks for a server ---------------------------------------------------

    def on_reconnect_error(self, exc: Exception) -> None:
        self.on_fault(exc)

    async def _connect_to_server(self, s: Any) -> None:
        if self._transport is None and s.uri.scheme in ("nats", "tls"):
            self._transport = DirectTransport(self._dispatch_chunk)
        await super()._connect_to_server(s)

    async def _process_connect_init(self) -> None:
        self._ps.reset()  # an error within a chunk leaves the rest of it in the parser
        self.denials.forget()
        try:
            await super()._process_connect_init()
        except nats.errors.Error as exc:  # nats-py has no type for a refused login
            if denials.is_login_refused(str(exc)):
                raise denials.LoginNotTaken(str(exc)) from exc
            raise

    async def _process_info(self, info: dict[str, Any], initial_connection: bool = False) -> None:
        server = self._current_server
        if (
            initial_connection
            and server is not None
            and tls.is_wanted((s.uri.scheme for s in self._server_pool), self.options)
        ):
            try:
                tls.require(info, server.uri.scheme)
            except tls.TlsNotOffered:
                if self._transport is not None:
                    self._transport.close()  # type: ignore[no-untyped-call]  # the next attempt opens a socket of its own
                raise
        await super()._process_info(info, initial_connection)

    async def _close(self, status: int, do_cbs: bool = True) -> None:
        if isinstance(self._transport, DirectTransport):
            self._transport.close_s = LAST_CLOSE_S
        try:
            await super()._close(status, do_cbs)
        except OSError:  # no connection can send the pending bytes: nats-py would stop halfway
            self._status, self._pending, self._pending_data_size = Client.DISCONNECTED, [], 0
            await super()._close(status, do_cbs)

    # -- overridden: a flush confirms what was sent before it --------------------------------------

    async def _send_ping(self, future: asyncio.Future[Any] | None = None) -> None:
        # nats-py writes the PING past its own buffer: the PONG could come before the SUB that the
        # flush should confirm.
        if self._pending and self.is_connected and self._transport is not None:
            # it is closing: the next connection sends the buffer
            with contextlib.suppress(OSError):
                self._transport.writelines(self._pending[:])
                self._pending = []
                self._pending_data_size = 0
        await super()._send_ping(future)

    async def _process_pong(self) -> None:
        # A flush that timed out or was cancelled leaves its future here; nats-py would raise on it
        # and stop reading.
        if self._pongs and self._pongs[0].done():
            self._pongs[0] = asyncio.get_running_loop().create_future()
        await super()._process_pong()

    # -- overridden: called by nats-py's reader for every message ----------------------------------

    def on_error_line(self, line: str) -> None:
        """An error line of the server. (nats-py passes it on in lower case.)"""
        self.denials.on_error_line(line, self.own_inboxes)
        if (limit := denials.find_limit(line)) is None:
            return
        self.limited_at = steady()
        if limit != self.limit:
            self.limit = limit
            self.on_limit(limit)

    async def _process_err(self, err_msg: str) -> None:
        # nats-py closes for good on nearly every -ERR, such as an expired login; this reconnects.
        if self.is_connected and PERMISSIONS_ERR not in err_msg:
            await self._process_op_err(nats.errors.Error(f"nats: {err_msg}"))
        else:
            await super()._process_err(err_msg)

    async def _process_headers(self, headers: bytes | None) -> Headers | None:
        return parse_head(headers) if headers else None

    def _build_message(
        self, sid: int, subject: bytes, reply: bytes, data: bytes, headers: Headers | None
    ) -> Any:
        try:
            return super()._build_message(sid, subject, reply, data, headers)
        except UnicodeDecodeError:
            return super()._build_message(
                sid, subject.decode("utf-8", "replace").encode(), b"", data, headers
            )


def head_of(headers: Mapping[str, str]) -> bytes:
    """A header block for `publish_nowait`. Line breaks inside a value become spaces, so a value
    cannot add a header.
    """
    return open_head_of(headers) + b"\r\n" if headers else b""


def open_head_of(headers: Mapping[str, str]) -> bytes:
    """`head_of` without the empty line at its end: the caller adds header lines, and that line."""
    block = "NATS/1.0\r\n"
    for name, value in list_lines(headers) if type(headers) is RepeatedHeaders else headers.items():
        block += f"{name}: {value if value.isprintable() else _LINE_BREAKS.sub(' ', value)}\r\n"
    return block.encode("utf-8", "replace")


async def _open_none() -> bool:
    """For a connection that was not opened by `first_connection.connect`."""
    return False


async def _ignore_message(_: Msg) -> None:
    """nats-py requires a coroutine function; it is never called, because the parser calls the
    direct callback.
    """
