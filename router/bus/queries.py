"""Queries: requests that a running responder answers now (docs/reference/requirements.md#sr-15).
The stream keeps a copy, and does not answer.

    ask -> {prefix}.queries.{name} -> one of the queue group -> {"ok": true, "payload": {…}} | {"ok": false, "error": {code, message}}

The server counts the stream as a subscriber, so without a responder a request waits for its whole
timeout.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Mapping

import nats.errors
import orjson
from msgspec import Struct

from router.bus.publisher import MSG_ID, effect_of
from router.bus.settings import BusSettings
from router.bus.subjects import query_subject
from router.contracts.codec import read_foreign_object, write_object
from router.contracts.envelope import MessageEnvelope, read_envelope, read_written_payload
from router.core.errors import BrokerUnavailable, Poison, RouterError, Unanswered
from router.core.user_functions import contain_cancellation, require_call, text_of
from router.delivery.wire.calls.request_reply import wait_until_connected
from router.delivery.wire.calls.request_server import (
    FAILED,
    OVERLOADED,
    STOPPING,
    ReplyAddresses,
    RequestServer,
)
from router.delivery.wire.connection import Connection
from router.delivery.wire.frames import Headers

MAX_CONCURRENT_QUERIES = 64  # requests at once; one more is answered `overloaded`
# for one response: a responder that hangs would keep its place for ever, and 64 of them all places
RESPONSE_TIMEOUT_S = 30.0
MAX_ERROR_TEXT = 1_000  # characters of an error's code and message together
REFUSALS: Mapping[str, tuple[str, str]] = {
    OVERLOADED: ("overloaded", "Too many requests at once; ask again"),
    STOPPING: ("internal", "the responder is stopping; ask again"),
    FAILED: ("internal", "the responder failed"),
}

Responder = Callable[[MessageEnvelope], Awaitable[Mapping[str, object]]]


class QueryRefused(RouterError):
    """The responder refused; `code` is its own."""

    def __init__(self, code: str, message: str) -> None:
        super().__init__(message)
        self.code = code


async def ask(
    connection: Connection,
    settings: BusSettings,
    query: str,
    envelope: MessageEnvelope,
    timeout: float = 5.0,  # noqa: ASYNC109 - a question's deadline is part of asking
) -> Mapping[str, object]:
    """Return the payload of the response. While the broker is away, it waits for the broker, within
    `timeout`, and sends only then.

    Raises QueryRefused, Unanswered, BrokerUnavailable, UnknownSubject.
    """
    subject = query_subject(settings.stream_prefix, query)
    effect = effect_of(subject, envelope)
    left_s = await wait_until_connected(connection, timeout)
    try:
        reply = await connection.request(
            subject, effect.data, timeout=left_s, headers={MSG_ID: effect.id}
        )
    except (nats.errors.TimeoutError, nats.errors.NoRespondersError) as exc:
        raise Unanswered(f"no answer on {subject} within {timeout:g} s") from exc
    except (nats.errors.Error, OSError) as exc:
        raise BrokerUnavailable(f"{subject}: {type(exc).__name__}") from exc
    return _payload(reply.data, connection.max_payload)


def _payload(data: bytes, max_bytes: int) -> Mapping[str, object]:
    answer = read_foreign_object(data, max_bytes)
    payload, error = answer.get("payload"), answer.get("error")
    if answer.get("ok") is True and isinstance(payload, dict):
        return read_written_payload(data) or payload
    error = error if isinstance(error, dict) else {}
    raise QueryRefused(
        str(error.get("code", "internal")), str(error.get("message", "the answer cannot be read"))
    )


class Query(Struct, frozen=True):
    """A request that can be answered."""

    inbox: str
    data: bytes


class QueryResponder(RequestServer[Query]):
    """Answers one query on one connection: `run` until cancelled."""

    def __init__(
        self, connection: Connection, settings: BusSettings, query: str, respond: Responder
    ) -> None:
        """A response that takes longer than RESPONSE_TIMEOUT_S seconds is answered `timeout`.

        Raises Misconfigured for a responder that is not asynchronous, or does not take an envelope.
        """
        require_call("respond", respond, "envelope", is_async=True)
        super().__init__(connection, query, at_once=MAX_CONCURRENT_QUERIES)
        self._max_payload_bytes, self._max_depth = settings.max_payload_bytes, settings.max_depth
        self._subject = query_subject(settings.stream_prefix, query)
        self._queue = settings.durable(query)
        self._respond = respond
        self._addresses = ReplyAddresses()

    async def run(self) -> None:
        """The supervised child: processes that answer the same query share the requests."""
        await self.serve(self.on_message, self._subject, queue_group=self._queue)

    def on_message(self, subject: str, reply: str, data: bytes, headers: Headers | None) -> None:
        if self._addresses.may_reach(reply):
            self.begin(Query(reply, data))

    async def answer(self, request: Query) -> None:
        try:
            question = read_envelope(
                request.data, max_bytes=self._max_payload_bytes, max_depth=self._max_depth
            )
            async with asyncio.timeout(RESPONSE_TIMEOUT_S):
                with contain_cancellation:
                    response = await self._respond(question)
                answer = b'{"ok":true,"payload":%b}' % write_object(response)
            if len(answer) > self._connection.max_payload:
                raise Poison("the answer is larger than the connection allows")
        except RouterError as exc:
            answer = _error(exc.code, text_of(exc))
        except TimeoutError:
            answer = _error("timeout", "the responder took too long")
        self._connection.publish_nowait(request.inbox, answer)

    def refuse(self, request: Query, reason: str) -> None:
        self._connection.publish_nowait(request.inbox, _error(*REFUSALS[reason]))


def _error(code: str, message: str) -> bytes:
    body = {
        "code": code[:MAX_ERROR_TEXT],
        "message": message[:MAX_ERROR_TEXT].encode("utf-8", "replace").decode(),
    }
    return orjson.dumps({"ok": False, "error": body})
