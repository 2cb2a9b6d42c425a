"""Call a service over HTTP with an event: `POST /handle`, and the meaning of its answer
(docs/reference/requirements.md#sd-handler).

    2xx                                  PROCESSED            the row is marked, then the message is
                                         acknowledged
    409                                  ALREADY_PROCESSED    the same
    422                                  POISON               a dead letter, then the same
    5xx, 408, no answer in time          TRANSIENT            nothing is acknowledged (POL-047-007)
    3xx, any other 4xx                   TRANSIENT, unserved  a wrong address, or this event alone:
                                         `http_strategy` finds out
    429                                  TRANSIENT, unserved  the service throttles; the message is
                                         not at fault
    no connection                        InboxUnavailable     the same: the consumer pauses, and
                                         nothing is spent

Calls go through a breaker: while a service gives no useful answer, it gets no calls for a while,
and no message spends a delivery. Only this file imports httpx2; it uses the transport without the
client around it, since redirects, cookies and proxies do not help here.
"""

from __future__ import annotations

import asyncio

import httpx2
import orjson

from router.contracts.codec import MAX_DEPTH, MAX_PAYLOAD_BYTES
from router.core.clock import steady
from router.core.errors import Misconfigured
from router.core.outcome import Fault
from router.mailbox.entities import Json
from router.mailbox.inbox.event import InboxEvent, read_event
from router.mailbox.inbox.handling import (
    Blame,
    HandlerAnswer,
    HandlerResult,
    InboxUnavailable,
    NullRemoteBreaker,
    RemoteBreaker,
)
from router.mailbox.ports import current_message
from router.mailbox.settings import HandlerConfig

LEFT_ALONE = "the handler failed too often: it is left alone for a while"
CONNECT_S = 5.0  # at most: an address that answers no connection is absent, not slow
TIMED_OUT, THROTTLED = 408, 429
SENDING = "http11.send_request_headers.started"  # https://www.encode.io/httpcore/extensions/#trace
# bytes that are read so that the connection can be used again; a longer answer costs its connection
MAX_ANSWER_BYTES = 64 * 1024


class RequestTrace:
    """What the transport tells of one call: whether it had a connection and began to send."""

    __slots__ = ("is_sent",)

    def __init__(self) -> None:
        self.is_sent = False

    async def __call__(self, event: str, _: object) -> None:
        if event == SENDING:
            self.is_sent = True


class HttpEventHandler:
    """`EventHandler` for a service of its own process. Safe for many calls at once; `close` it at
    the end.
    """

    def __init__(
        self,
        settings: HandlerConfig,
        breaker: RemoteBreaker | None = None,
        *,
        max_payload_bytes: int = MAX_PAYLOAD_BYTES,
        max_depth: int = MAX_DEPTH,
    ) -> None:
        """Its timeout is for the whole answer. There are as many connections as calls at once.
        Raises Misconfigured: no legal URL.
        """
        if settings.url is None:
            raise Misconfigured(
                "inbox.handler.url",
                (
                    "say where the service is, like http://127.0.0.1:8000/handle, or give "
                    "MODULE:FUNCTION"
                ),
            )
        self._max_payload_bytes, self._max_depth = max_payload_bytes, max_depth
        self._timeout_s = settings.timeout_ms / 1000
        self._breaker: RemoteBreaker = breaker if breaker is not None else NullRemoteBreaker()
        self._url = _parse_url(settings.url)
        self._limits = {"timeout": {"connect": min(CONNECT_S, self._timeout_s / 2)}}
        self._tls = httpx2.create_ssl_context()
        self._transports: list[httpx2.AsyncHTTPTransport] = []
        # the last one used is the first to be used again
        self._free: list[httpx2.AsyncHTTPTransport] = []

    async def close(self) -> None:
        for transport in self._transports:
            await transport.aclose()

    @property
    def unavailable(self) -> InboxUnavailable | None:
        return InboxUnavailable(LEFT_ALONE) if self._breaker.is_open else None

    async def handle(self, event_type: str, payload: Json) -> HandlerResult:
        """PORT-047-005 (docs/reference/requirements.md#sd-25); the rest of the event is read from
        `current_message`. Raises as `answer` does.
        """
        event = read_event(current_message.get(), self._max_payload_bytes, self._max_depth)
        return (
            HandlerResult.POISON if isinstance(event, Fault) else (await self.answer(event)).result
        )

    async def answer(self, event: InboxEvent) -> HandlerAnswer:
        """Return what the service answers to this event. Raises InboxUnavailable while its breaker
        is open.
        """
        permit = self._breaker.acquire(self._timeout_s)
        if permit is None:
            raise InboxUnavailable(LEFT_ALONE)
        begun, trace = steady(), RequestTrace()
        try:
            status = await self._post(event, trace)
        except (httpx2.HTTPError, OSError) as exc:  # TimeoutError is an OSError
            permit.record_failure()
            # also if the whole time was over while it connected, as in a process that stood still
            if not trace.is_sent:
                raise InboxUnavailable(
                    f"no connection to the handler at inbox.handler.url ({type(exc).__name__})"
                ) from exc
            return HandlerAnswer(
                HandlerResult.TRANSIENT,
                "timeout" if isinstance(exc, TimeoutError) else type(exc).__name__,
            )
        except BaseException:  # also a cancellation: it counts neither as success nor as failure
            permit.release()
            raise
        answer = HandlerAnswer(result_of(status), str(status), blame_of(status))
        if answer.is_useful:
            permit.record_success((steady() - begun) * 1e3)
        elif answer.blame is Blame.EVENT:
            permit.record_failure()
        else:
            # a service answers; `http_strategy` finds out whether it serves any event
            permit.release()
        return answer

    async def _post(self, event: InboxEvent, trace: RequestTrace) -> int:
        extensions = {**self._limits, "trace": trace}
        request = httpx2.Request(
            "POST",
            self._url,
            headers=_headers_of(event),
            content=body_of(event),
            extensions=extensions,
        )
        transport = self._free.pop() if self._free else self._add_transport()
        try:
            async with asyncio.timeout(self._timeout_s):
                response = await transport.handle_async_request(request)
                try:
                    await _read_some(response)
                finally:
                    await response.aclose()
        finally:
            self._free.append(transport)
        return response.status_code

    def _add_transport(self) -> httpx2.AsyncHTTPTransport:
        """Add a transport for one call at a time: a pool of many checks each of its idle
        connections, for each call twice.
        """
        transport = httpx2.AsyncHTTPTransport(
            verify=self._tls, limits=httpx2.Limits(max_connections=1)
        )
        self._transports.append(transport)
        return transport


def result_of(status: int) -> HandlerResult:
    """The meaning of a status (POL-047-005..007)."""
    if 200 <= status <= 299:
        return HandlerResult.PROCESSED
    if status == 409:
        return HandlerResult.ALREADY_PROCESSED
    return HandlerResult.POISON if status == 422 else HandlerResult.TRANSIENT


def blame_of(status: int) -> Blame:
    """The cause by status: a service that is there answers 2xx, 409, 422 or 5xx."""
    if status == THROTTLED:
        return Blame.SERVICE
    is_served = 200 <= status <= 299 or status >= 500 or status in (409, 422, TIMED_OUT)
    return Blame.EVENT if is_served else Blame.UNKNOWN


def body_of(event: InboxEvent) -> bytes:
    """The request's body (docs/reference/requirements.md#sd-32); it holds the payload byte for
    byte.
    """
    return orjson.dumps(
        {
            "message_id": event.message_id,
            "subject": event.subject,
            "event_type": event.event_type,
            "event_version": event.event_version,
            "occurred_at": event.occurred_at,
            "correlation_id": event.correlation_id,
            "causation_id": event.causation_id,
            "payload": orjson.Fragment(event.body),
        }
    )


def _headers_of(event: InboxEvent) -> dict[str, str]:
    headers = {"Content-Type": "application/json"}
    if event.traceparent is not None:
        headers["traceparent"] = event.traceparent
    return headers


async def _read_some(response: httpx2.Response) -> None:
    size = 0
    async for chunk in response.aiter_raw():
        size += len(chunk)
        if size > MAX_ANSWER_BYTES:
            return


def _parse_url(url: str) -> httpx2.URL:
    try:
        parsed = httpx2.URL(url)
    except httpx2.InvalidURL as exc:
        raise Misconfigured("inbox.handler.url", "should be an http:// or https:// URL") from exc
    if parsed.scheme not in ("http", "https") or not parsed.host:
        raise Misconfigured("inbox.handler.url", "should be an http:// or https:// URL")
    return parsed
