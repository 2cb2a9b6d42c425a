"""Request-reply with a deadline: one inbox for the life of the connection, and a dictionary of the
calls in flight. A call waits for a lost connection, and carries its trace.

    call ── post ──> subject ── reply: {inbox}.{token} ──> the reader ──> the future of that token

Deadlines fall into ticks of 5 ms, and one timer serves all calls of a tick: a timer of its own
costs a call as much as sending it. A reply that comes after its deadline finds no call and is
dropped.
"""

from __future__ import annotations

import asyncio
import re
from collections.abc import Awaitable, Mapping
from time import monotonic
from typing import Protocol

from msgspec import Struct

from router.contracts.extension import DEADLINE, FAULT, read_retry_after
from router.contracts.headers import TRACEPARENT
from router.core.errors import BrokerUnavailable, CallTimeout, ConnectionLost, NoResponders, Poison
from router.core.ids import random_tokens
from router.core.message import NO_HEADERS
from router.delivery.wire.connection import Connection, open_head_of
from router.delivery.wire.frames import parse_head
from router.process.observability.tracing import Tracing, find_tracing

TIMEOUT_CHECK_S = 0.005
_HEAD = b"%b" + DEADLINE.encode() + b": %d\r\n\r\n"
NO_RESPONDERS = "503"
SERVICE_ERROR_CODE = "Nats-Service-Error-Code"
SERVICE_ERROR = "Nats-Service-Error"
UNKNOWN_ERROR = 500  # an error that names no number we can read


class ServiceReply(Struct, frozen=True, gc=False):
    """What came back. `error_code`: a service says no, by the NATS service protocol (4xx: the
    request; 5xx: the service).
    """

    data: bytes
    error_code: int | None = None
    error: str | None = None
    fault: str | None = None  # as the service says it
    retry_after_ms: int | None = None


_Waiting = tuple[asyncio.Future[ServiceReply], dict[bytes, int]]  # and the tick that it is due in


class TooLarge(Poison):
    """The server takes no message of this size."""


class RequestReplyClient:
    """All calls over one connection. Nothing is subscribed before the first."""

    def __init__(self, connection: Connection) -> None:
        self._connection = connection
        self._inbox = ""
        self._opening: asyncio.Task[int] | None = None
        self._loop: asyncio.AbstractEventLoop | None = None  # once there is an inbox
        # a service sees the token of its own call: it must not lead to those of others
        self._tokens = random_tokens()
        self._waiting: dict[bytes, _Waiting] = {}
        # by tick: who waits, and the connection's life when it was called
        self._due: dict[int, dict[bytes, int]] = {}

    def head(self, headers: Mapping[str, str]) -> bytes:
        """Headers as `call` takes them: made once for all calls that bear them."""
        return open_head_of(headers)

    def call(
        self, subject: str, data: bytes, head: bytes, timeout_s: float
    ) -> Awaitable[ServiceReply]:
        """The answer. Raises CallTimeout, NoResponders, ConnectionLost; BrokerUnavailable,
        TooLarge: nothing was sent.

        The subject is trusted. Its headers say how long it waits. A future, once there is an inbox:
        a coroutine would cost as much again.
        """
        loop = self._loop
        if loop is None:
            return self._open_and_call(subject, data, head, timeout_s)
        connection, head = self._connection, _HEAD % (head, timeout_s * 1000)
        if not connection.is_connected or len(head) + len(data) > connection.max_payload:
            raise self._refusal(len(head) + len(data))
        name = next(self._tokens)
        token = name.encode()
        tick = int((monotonic() + timeout_s) / TIMEOUT_CHECK_S) + 1
        due = self._due.get(tick)
        if due is None:
            due = self._due_at(tick, loop)
        due[token] = connection.reconnect_count
        future: asyncio.Future[ServiceReply] = loop.create_future()
        self._waiting[token] = (future, due)
        connection.publish_nowait(subject, data, f"{self._inbox}{name}", head)
        return future

    async def _open_and_call(
        self, subject: str, data: bytes, head: bytes, timeout_s: float
    ) -> ServiceReply:
        await self._open()
        return await self.call(subject, data, head, timeout_s)

    def __len__(self) -> int:
        """How many wait. One that was cancelled does not, though its place is cleared only when its
        time is over.
        """
        return sum(not waiting.done() for waiting, _ in self._waiting.values())

    def _refusal(self, size: int) -> BrokerUnavailable | TooLarge:
        if not self._connection.is_connected:
            return BrokerUnavailable("not connected")
        # The server would end the connection for it.
        return TooLarge(f"{size} bytes where the server takes {self._connection.max_payload}")

    async def _open(self) -> None:
        """Subscribe to the inbox once; a cancelled caller must not cancel the subscription for the
        others.
        """
        if self._opening is None or (
            self._opening.done() and self._opening.exception() is not None
        ):
            self._inbox = f"{self._connection.new_inbox()}."
            self._opening = asyncio.create_task(
                self._connection.subscribe_raw(f"{self._inbox}*", self._on_reply)
            )
        await asyncio.shield(self._opening)
        self._loop = asyncio.get_running_loop()

    def _on_reply(self, subject: bytes, _reply: bytes, data: bytes, head: bytes | None) -> None:
        """Raw, for there are as many of these as calls; nothing here raises."""
        token = subject[len(self._inbox) :]
        entry = self._waiting.pop(token, None)
        if entry is None:
            return
        waiting, due = entry
        del due[token]
        if waiting.done():  # cancelled
            return
        self._connection.has_woken_task = True
        if head is None:
            waiting.set_result(ServiceReply(data))
            return
        headers = parse_head(head) or NO_HEADERS
        if not data and headers.get("Status") == NO_RESPONDERS:
            waiting.set_exception(NoResponders("no responders"))
        elif SERVICE_ERROR_CODE in headers or SERVICE_ERROR in headers:
            waiting.set_result(_read_error(data, headers))
        else:
            waiting.set_result(ServiceReply(data))

    def _due_at(self, tick: int, loop: asyncio.AbstractEventLoop) -> dict[bytes, int]:
        """Who is due in this tick, with a timer for all of them."""
        loop.call_at(loop.time() + tick * TIMEOUT_CHECK_S - monotonic(), self._expire, tick)
        due = self._due[tick] = {}
        return due

    def _expire(self, tick: int) -> None:
        for token, reconnects in self._due.pop(tick).items():
            waiting, _ = self._waiting.pop(token)
            if waiting.done():
                continue
            if self._connection.reconnect_count != reconnects or not self._connection.is_connected:
                waiting.set_exception(
                    ConnectionLost("the connection was lost while the call was under way")
                )
            else:
                waiting.set_exception(CallTimeout("no answer in time"))


def _read_error(data: bytes, headers: Mapping[str, str]) -> ServiceReply:
    return ServiceReply(
        data,
        _number(headers.get(SERVICE_ERROR_CODE, "")),
        headers.get(SERVICE_ERROR, ""),
        headers.get(FAULT),
        read_retry_after(headers),
    )


def _number(text: str) -> int:
    return int(text) if text.isascii() and text.isdigit() and len(text) <= 6 else UNKNOWN_ERROR


# -- Calls with traces: each in a span that the request carries, if the process has an
# OpenTelemetry SDK.


_LINE = re.compile(rb"(?<=\r\n)traceparent: ([^\r]*)\r\n")


class Requester(Protocol):
    """`Calls`, or the same with traces."""

    def head(self, headers: Mapping[str, str]) -> bytes: ...

    def call(
        self, subject: str, data: bytes, head: bytes, timeout_s: float
    ) -> Awaitable[ServiceReply]: ...


def trace_calls(calls: Requester) -> Requester:
    """The same calls, unless an SDK is configured already."""
    tracing = find_tracing()
    return calls if tracing is None else TracedCalls(tracing, calls)


class TracedCalls:
    """Parent of each span: the `traceparent` in the head of the call, else the current span."""

    def __init__(self, tracing: Tracing, calls: Requester) -> None:
        self._tracing = tracing
        self._calls = calls

    def head(self, headers: Mapping[str, str]) -> bytes:
        return self._calls.head(headers)

    async def call(self, subject: str, data: bytes, head: bytes, timeout_s: float) -> ServiceReply:
        match = _LINE.search(head)
        with self._tracing.trace_request(
            subject, {} if match is None else {TRACEPARENT: match[1].decode("utf-8", "replace")}
        ) as traced:
            if TRACEPARENT in traced:  # it is missing if the SDK is installed and switched off
                head = _LINE.sub(b"", head) + b"traceparent: %b\r\n" % traced[TRACEPARENT].encode()
            reply = await self._calls.call(subject, data, head, timeout_s)
            if reply.error_code is not None:
                self._tracing.mark_failed(str(reply.error_code))
            return reply


# -- Wait for a lost connection to come back, before a request is sent: what is written meanwhile
# would be sent after its caller gave up.


CHECK_S = 0.05  # how soon a reconnect is noticed


async def wait_until_connected(connection: Connection, timeout_s: float) -> float:
    """Return the seconds that are left, at once where it is connected.

    Raises BrokerUnavailable after `timeout_s` seconds, or when the connection is closed for good.
    """
    loop = asyncio.get_running_loop()
    left_s, until = timeout_s, loop.time() + timeout_s
    while not connection.is_connected:
        await asyncio.sleep(min(CHECK_S, max(left_s, 0)))
        left_s = until - loop.time()
        if left_s <= 0 or connection.is_closed:
            raise BrokerUnavailable(
                f"not connected to a server for {timeout_s:g} s: nothing was sent"
            )
    return left_s
