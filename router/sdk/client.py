"""A client of the router, for Python, and the answer that it gets.

    async with Client("nats://localhost:4222") as client:
        answer = await client.decide(tenant_id="acme", message_type="chat", payload="hello")
        print(answer.decision.provider_id)

A client has one inbox subscription for its whole life; the last token of the inbox tells which
request an answer belongs to. Each request names that inbox itself (`Reply-To`) and carries a
message id: so another router may answer it when the first one dies, and a repeated request is safe.
A client cannot see whether a router runs: it reports silence as `Unanswered`.

A connection that does not come back though its server can be reached (`delivery.wire.stuck`) is
closed, and every call raises `ConnectionStuck`, also those that wait: the program goes on, and may
open another client.
"""

from __future__ import annotations

import asyncio
import sys
import uuid
from collections.abc import Awaitable, Callable, Mapping
from contextlib import AbstractContextManager, nullcontext
from types import MappingProxyType
from typing import TYPE_CHECKING, Any, Self, TypeVar

import msgspec
from msgspec import Raw, Struct

from router.contracts.codec import UNREADABLE_ERRORS, bytes_of, text_of
from router.contracts.decision import Decision, Refusal
from router.contracts.malformed import SCHEMA_VALIDATION_FAILED, STAGE_SCHEMA, Malformed
from router.contracts.raw_json import write_payload
from router.core import ids
from router.core.errors import (
    BrokerRefused,
    BrokerUnavailable,
    ConnectionStuck,
    Misconfigured,
    NoRouter,
    RouterError,
    Unanswered,
)
from router.delivery.wire.calls.request_reply import wait_until_connected
from router.delivery.wire.calls.stream import require_fit
from router.delivery.wire.connection import Connection, head_of
from router.delivery.wire.stuck import ConnectionWatchdog
from router.sdk.connect import DEFAULT_URL, open_connection
from router.sdk.providers import ProviderCalls

if TYPE_CHECKING:
    from router.config import NatsConfig


# -- The answer that a client gets: the router's answer with its types, and its bytes as received
# (docs/reference/contracts.md#answers).


NO_CONTEXT: Mapping[str, str] = {}


class ReturnedMessage(Struct, frozen=True):
    """The message as the pre-processors left it. `payload` is JSON as it stands; `read_payload`
    reads it.
    """

    message_type: str
    payload: Raw
    payload_encoding: str | None = None
    payload_ref: str | None = None
    metadata: Mapping[str, Any] = NO_CONTEXT

    def read_payload(self) -> Any:
        """The value; bytes where they were sent as base64."""
        value = msgspec.json.decode(self.payload)
        return value if self.payload_encoding is None else bytes_of(value, self.payload_encoding)


class Answer(Struct, frozen=True):
    """`decision` if it is ok, else `error`; `context` has request_id and, if there was one,
    trace_id. `message`: what a request with `return_message` is told; None where no pre-processor
    ran, so that the message is what was sent.
    """

    ok: bool
    decision: Decision | None = None
    error: Refusal | None = None
    context: Mapping[str, str] = NO_CONTEXT
    warnings: tuple[Refusal, ...] = ()  # decided, but a part of the request was not carried out
    message: ReturnedMessage | None = None
    raw: bytes = b""


class _StreamAck(Struct):
    """JetStream's own answer to a publisher."""

    stream: str | None = None
    error: Mapping[str, object] | None = None


_ANSWER = msgspec.json.Decoder(Answer)
_STREAM_ACK = msgspec.json.Decoder(_StreamAck)


def read_answer(data: bytes) -> Answer | None:
    """Read the answer; None for a PubAck, which only says that the request is stored (confirm mode
    "stored").

    Raises BrokerRefused when the stream would not store the request, RouterError for bytes that are
    no answer.
    """
    try:
        return msgspec.structs.replace(_ANSWER.decode(data), raw=data)
    except UNREADABLE_ERRORS:
        _check_stream_ack(data)
        return None


def _check_stream_ack(data: bytes) -> None:
    try:
        publish_ack = _STREAM_ACK.decode(data)
    except UNREADABLE_ERRORS as exc:
        raise RouterError("what came back is not an answer of a router") from exc
    if publish_ack.error is not None:
        number = publish_ack.error.get("err_code")
        raise BrokerRefused(
            number if isinstance(number, int) else 0, str(publish_ack.error.get("description", ""))
        )
    if publish_ack.stream is None:
        raise RouterError("what came back is not an answer of a router")


# -- A client of the router, for Python.


DECIDE_SUBJECT = "beamline.router.v1.decide"
NOTHING: Mapping[str, str] = MappingProxyType({})
T = TypeVar("T")


class PendingAnswer(Struct, frozen=True):
    """A request that waits. `settle` handles each message for it: an answer, and whether it is the
    status 503.
    """

    answer: asyncio.Future[Any]
    resolve: Callable[[bytes, bool], None]


class Client(ProviderCalls):
    """Decide requests and provider invocations (`providers`) over one connection; may be shared by
    any number of tasks.

    `nats`: a URL, or the settings that say how to log in (`router.config.load().settings.nats`);
    or a connection of the caller's, who watches and closes it.
    """

    def __init__(
        self, nats: str | NatsConfig | Connection = DEFAULT_URL, *, subject: str = DECIDE_SUBJECT
    ) -> None:
        if not ids.is_literal_subject(subject):
            raise Misconfigured("subject", "should be one literal subject")
        self._nats = nats
        self._subject = subject
        self._connection: Connection | None = None
        self._inbox, self._sid = "", 0
        self._waiting: dict[str, PendingAnswer] = {}  # by token
        self._watching: asyncio.Task[None] | None = None
        self._stuck: str | None = None  # why the connection was given up

    async def __aenter__(self) -> Self:
        """Raises BrokerUnavailable when no server answers."""
        connection = self._connection = (
            self._nats
            if isinstance(self._nats, Connection)
            else await open_connection(self._nats, "router-client")
        )
        self._inbox, self._stuck = connection.new_inbox(), None
        self._sid = await connection.subscribe_direct(f"{self._inbox}.*", self._hear)
        if connection is not self._nats:
            self._watching = asyncio.create_task(self._watch(connection))
        return self

    async def __aexit__(self, *_: object) -> None:
        connection, self._connection = self._connection, None
        if self._watching is not None:
            self._watching.cancel()
        if connection is self._nats and connection is not None:
            await connection.unsubscribe(self._sid)
        elif connection is not None:
            await connection.close()

    async def decide(
        self,
        *,
        tenant_id: str,
        message_type: str,
        payload: object,
        policy_id: str | None = None,
        context: Mapping[str, object] | None = None,
        constraints: Mapping[str, object] | None = None,
        request_id: str | None = None,
        trace_id: str | None = None,
        traceparent: str | None = None,
        push: bool = False,
        return_message: bool = False,
        timeout: float = 5.0,  # noqa: ASYNC109 - a request's deadline is part of asking
        attempts: int = 1,
    ) -> Answer:
        """Ask for a decision (docs/reference/contracts.md#decide-requests, form a). `payload` is
        any JSON value, or bytes; `msgspec.Raw` is JSON as it stands.

        `request_id` makes it the same request when it is asked again, for ten minutes: the same
        decision, no second side effect. `constraints`: whom the decision may choose
        (docs/reference/contracts.md#constraints). `return_message`: tell in `message` what the
        policy's pre-processors left of it; not with `push`. `timeout`: seconds that each of
        `attempts` waits; an attempt is the same message again. While the broker is away, it waits
        for the broker and sends only then. Raises Unanswered, BrokerUnavailable (nothing was sent), ConnectionStuck,
        PermissionDenied, Malformed (what JSON cannot hold); a router that says no is an Answer.
        """
        beside = {
            "policy_id": policy_id,
            "context": dict(context) if context else None,
            "constraints": dict(constraints) if constraints else None,
            "request_id": request_id,
            "push_assignment": push or None,
            "return_message": return_message or None,
        }
        body = _body(tenant_id, message_type, payload, beside)
        headers = {"tenant_id": tenant_id, "version": "1", "trace_id": trace_id or uuid.uuid4().hex}
        if traceparent is not None:
            headers["traceparent"] = traceparent
        return await self.decide_raw(body, headers, timeout=timeout, attempts=attempts)

    async def decide_raw(
        self,
        body: bytes,
        headers: Mapping[str, str] = NOTHING,
        *,
        timeout: float = 5.0,  # noqa: ASYNC109
        attempts: int = 1,
    ) -> Answer:
        """Send these bytes as they are: a request in any accepted form. A message id is added
        unless `headers` has one.
        """
        return await self._ask(
            self._subject, body, headers, read_answer, timeout=timeout, attempts=attempts
        )

    async def _ask(
        self,
        subject: str,
        body: bytes,
        headers: Mapping[str, str],
        read: Callable[[bytes], T | None],
        *,
        timeout: float,  # noqa: ASYNC109
        attempts: int = 1,
    ) -> T:
        connection = self._open()
        token = uuid.uuid4().hex
        inbox = f"{self._inbox}.{token}"
        answer: asyncio.Future[T] = asyncio.get_running_loop().create_future()
        self._waiting[token] = PendingAnswer(answer, _build_resolver(answer, read, subject))
        try:
            with (
                connection.denials.watch(subject, answer),
                _open_span(
                    subject, {"Nats-Msg-Id": token, **headers, "Reply-To": inbox}
                ) as carried,
            ):
                head = head_of(carried)
                require_fit(connection, head, body)

                async def post() -> float:
                    left_s = await self._wait_for_connection(timeout)
                    connection.publish_nowait(subject, body, inbox, head)
                    return left_s

                return await _wait_for_answer(
                    answer, post, subject, timeout_s=timeout, attempts=attempts
                )
        finally:
            del self._waiting[token]
            answer.cancel()

    async def _wait_for_connection(self, timeout_s: float) -> float:
        try:
            return await wait_until_connected(self._open(), timeout_s)
        finally:
            self._open()  # raises ConnectionStuck: it was given up meanwhile

    def _open(self) -> Connection:
        if self._connection is None:
            raise RouterError(
                "the client is not open: use it as `async with Client(...) as client`"
            )
        if self._stuck is not None:
            raise ConnectionStuck(self._stuck)
        return self._connection

    async def _watch(self, connection: Connection) -> None:
        """Give the connection up when it is stuck. The program is the caller's, so it is told, and
        nothing of it is cancelled.
        """
        watchdog = ConnectionWatchdog((connection,))
        await watchdog.run()
        self._stuck = f"{watchdog.cause}: leave this client's block, and open another client"
        for pending in self._waiting.values():
            if not pending.answer.done():
                pending.answer.set_exception(ConnectionStuck(self._stuck))
        await connection.close()

    def _hear(
        self, subject: str, _reply: str, data: bytes, headers: Mapping[str, str] | None
    ) -> None:
        pending = self._waiting.get(subject.rpartition(".")[2])
        if pending is not None:
            pending.resolve(
                data, not data and headers is not None and headers.get("Status") == "503"
            )


def _open_span(
    subject: str, headers: Mapping[str, str]
) -> AbstractContextManager[Mapping[str, str]]:
    """Open a span, where the process has an SDK for it. The module behind it is heavier than all
    the rest of a client.
    """
    if "opentelemetry.sdk.trace" not in sys.modules:
        return nullcontext(headers)
    from router.process.observability.tracing import trace_request

    return trace_request(subject, headers)


async def _wait_for_answer(
    answer: asyncio.Future[T],
    post: Callable[[], Awaitable[float]],
    subject: str,
    *,
    timeout_s: float,
    attempts: int,
) -> T:
    """Send again while no answer comes. `post` returns the seconds that are left. Raises
    Unanswered; BrokerUnavailable if none was sent.
    """
    away: BrokerUnavailable | None = None
    sent = 0
    for _ in range(attempts):
        try:
            left_s = await post()
        except ConnectionStuck:
            raise
        except BrokerUnavailable as exc:
            away = exc
            continue
        sent += 1
        done, _pending = await asyncio.wait({answer}, timeout=left_s)
        if done:
            return answer.result()
    if away is not None and not sent:
        raise away
    raise Unanswered(
        f"no answer on {subject} within {timeout_s:g} s"
        + (f" ({attempts} attempts)" if attempts > 1 else "")
        + ": is a router running there? `router doctor` looks"
    )


def _build_resolver(
    answer: asyncio.Future[T], read: Callable[[bytes], T | None], subject: str
) -> Callable[[bytes, bool], None]:
    """Build the function that handles each message for a request; `read` returns None for a message
    that is no answer yet.
    """

    def resolve(data: bytes, is_nobody: bool) -> None:
        if answer.done():
            return  # the second answer of a redelivery, or one that came too late
        try:
            if is_nobody:
                raise NoRouter(
                    f"no subscriber on {subject}: no router was ever started on this server"
                )
            if (value := read(data)) is not None:
                answer.set_result(value)
        except RouterError as exc:
            answer.set_exception(exc)

    return resolve


def _body(
    tenant_id: str, message_type: str, payload: object, beside: Mapping[str, object]
) -> bytes:
    text, encoding = text_of(payload) if isinstance(payload, bytes) else (payload, None)
    message = {"tenant_id": tenant_id, "message_type": message_type, "payload": text}
    if encoding is not None:
        message["payload_encoding"] = encoding
    try:
        return write_payload(
            {
                "message": message,
                **{name: value for name, value in beside.items() if value is not None},
            }
        )
    except (TypeError, ValueError) as exc:
        raise Malformed(
            SCHEMA_VALIDATION_FAILED,
            f"Payload and context must be what JSON can hold: {exc}",
            STAGE_SCHEMA,
        ) from exc
