"""Serves `beamline.provider.v1.invoke` and `….invoke.stream`, and calls the provider that the registry names.

    client ── invoke ──> router ── beamline.provider.{id}.{version} ──> a provider of the registry
                            └── one ProviderResponse, or StreamChunks up to one that is `done`, to the inbox of the client

One instance of the queue group handles each request, in its own task. Every error is answered. Tenants share the slots
for requests in flight (`router.core.fair_slots`): one that opens as many streams as it can leaves as many slots free. When the client stops
listening to a stream (`delivery.calls.reply_streams`), the router cancels it, and its provider stops the same way.
What a provider did is metered before its answer, or a stream's last chunk, goes out (`services.invocation_metering`).
"""

from __future__ import annotations

import asyncio
from collections.abc import Mapping

from msgspec import Struct
from msgspec.structs import replace

from router.config import Settings
from router.contracts.decision import INTERNAL, INVALID_REQUEST, UNAUTHORIZED
from router.contracts.extract import extract_request_ids
from router.contracts.headers import message_id_in
from router.contracts.malformed import Malformed
from router.contracts.provider import (
    INVOKE,
    INVOKE_STREAM,
    ProviderResponse,
    is_protobuf_wanted,
    refuse,
    response_bytes,
)
from router.contracts.provider_call import read_time_left
from router.contracts.provider_chunk import StreamChunk, chunk_bytes, last_chunk
from router.contracts.provider_request import ProviderRequest, read_request
from router.core.clock import steady
from router.core.fair_slots import FairSlots
from router.core.message import NO_HEADERS
from router.delivery import request_server
from router.delivery.calls.reply_streams import ReplyStreams
from router.delivery.connection import Connection, head_of
from router.delivery.frame_parser import Headers
from router.delivery.request_server import ReplyAddresses, RequestServer
from router.operations.observability import events, logs
from router.routing.extensions.provider_failure import failed_response, make_too_large
from router.routing.extensions.providers import ProviderInvoker
from router.services.invocation_metering import CANCELLED, InvocationMetering, InvocationOutcome, StreamReceipt

log = logs.logger(__name__)

OVERLOADED = "overloaded"
HEADERS = {"version": "1"}
REFUSAL_HEAD = head_of(HEADERS)
DRAIN_S = 5.0  # requests in flight may take this long when the router stops

REFUSALS: Mapping[str, tuple[str, str]] = {
    request_server.OVERLOADED: (OVERLOADED, "Too many invocations in flight; try again"),
    request_server.STOPPING: (INTERNAL, "The router is stopping; try again"),
    request_server.FAILED: (INTERNAL, "The invocation could not be handled"),
}
NOT_METERED = INTERNAL, "The invocation could not be metered"
METERING_PAUSED = OVERLOADED, "Invocations cannot be metered now; try again"


class ProviderInvocation(Struct, frozen=True):
    """A request that holds one of its tenant's slots."""

    request: ProviderRequest
    is_stream: bool
    reply: str
    headers: Mapping[str, str]


class ProviderServer(RequestServer[ProviderInvocation]):
    def __init__(
        self,
        connection: Connection,
        providers: ProviderInvoker,
        metering: InvocationMetering,
        addresses: ReplyAddresses,
        settings: Settings,
    ) -> None:
        self._config = settings.providers
        super().__init__(connection, "providers", at_once=self._config.at_once, drain_s=DRAIN_S)
        self._limits = (settings.max_payload_bytes, settings.max_depth)
        self._tenants = frozenset(settings.tenants_allowed)
        self._addresses = addresses
        self._streams = ReplyStreams(self._connection)
        self._providers = providers
        self._metering = metering
        self._shares = FairSlots(self._config.at_once)

    async def run(self) -> None:
        """Serve until cancelled; then accept no request, and let those in flight finish."""
        async with self._streams, self._metering.open():
            await self.serve(self.on_message, INVOKE, INVOKE_STREAM, queue_group=self._config.queue_group)

    def on_message(self, subject: str, reply: str, data: bytes, headers: Headers | None) -> None:
        if not self._addresses.may_reach(reply):
            return
        headers_read, is_stream = headers or NO_HEADERS, subject == INVOKE_STREAM
        request = self._admit(data, headers_read)
        if isinstance(request, ProviderResponse):
            self._send_refusal(request, is_stream, reply, headers_read)
        else:
            self.begin(ProviderInvocation(request, is_stream, reply, headers_read))

    def _admit(self, data: bytes, headers: Mapping[str, str]) -> ProviderRequest | ProviderResponse:
        """The request, after its tenant has taken a slot; or the response that refuses it."""
        try:
            request = read_request(data, headers, *self._limits)
        except Malformed as exc:
            metadata = {"field": exc.field} if exc.field else {}
            return refuse(_id_in(data, headers), INVALID_REQUEST, str(exc), metadata=metadata)
        except Exception as exc:  # every request gets a response
            log.exception(events.SERVICE_FAILED, service="providers", error=type(exc).__name__)
            return refuse(message_id_in(headers) or "", *REFUSALS[request_server.FAILED])
        if self._tenants and request.tenant_id not in self._tenants:
            return refuse(request.request_id, UNAUTHORIZED, "This tenant is not served here")
        if self._metering.is_paused:
            return refuse(request.request_id, *METERING_PAUSED)
        if not self._shares.acquire(request.tenant_id):
            return refuse(request.request_id, *REFUSALS[request_server.OVERLOADED])
        return request

    async def answer(self, request: ProviderInvocation) -> None:
        asked, left_s = request.request, read_time_left(request.headers)
        if request.is_stream:
            await self._stream(request, left_s)
            return
        head = head_of(_build_headers(asked))
        data = await self._invoke(asked, left_s, self._connection.max_payload - len(head))
        self._connection.publish_nowait(request.reply, data, "", head)

    async def _invoke(self, request: ProviderRequest, left_s: float | None, max_bytes: int) -> bytes:
        """The metered response; where it is above `max_bytes`, one that says so in its place."""
        begun = steady()
        try:
            end = await self._providers.invoke(request, left_s)
        except asyncio.CancelledError:
            await self._metering.store(request, InvocationOutcome(status=CANCELLED), steady() - begun)
            raise
        response, data = end.response, response_bytes(end.response, protobuf=request.wants_protobuf)
        if len(data) > max_bytes:
            response = replace(failed_response(request, make_too_large(), response.latency_ms), cost=response.cost)
            data = response_bytes(response, protobuf=request.wants_protobuf)
        outcome = InvocationOutcome(status=response.status, cost=response.cost, was_sent=end.was_sent)
        if await self._metering.store(request, outcome, steady() - begun):
            return data
        return response_bytes(refuse(request.request_id, *NOT_METERED), protobuf=request.wants_protobuf)

    async def _stream(self, invocation: ProviderInvocation, left_s: float | None) -> None:
        task, request, begun, receipt = asyncio.current_task(), invocation.request, steady(), StreamReceipt()
        assert task is not None  # noqa: S101 - a coroutine runs in a task
        headers, was_sent = _build_headers(request), True  # as long as it is not known
        max_bytes = self._connection.max_payload - len(head_of(headers))
        with self._streams.open(invocation.reply, task.cancel, headers) as stream:

            def send(chunk: StreamChunk) -> None:
                receipt.take(chunk)
                data = chunk_bytes(chunk, protobuf=request.wants_protobuf)
                if len(data) > max_bytes:  # the server would close the connection for it
                    raise make_too_large()
                if not chunk.done:
                    stream.send(data)

            try:
                was_sent = await self._providers.stream(request, send, left_s)
            finally:  # also of one that is cut: its reader left, or the router stops
                is_metered = await self._metering.store(request, receipt.conclude(was_sent=was_sent), steady() - begun, is_stream=True)
            last = receipt.last if is_metered else last_chunk(refuse(request.request_id, *NOT_METERED))
            if last is not None:
                stream.send(chunk_bytes(last, protobuf=request.wants_protobuf))

    def refuse(self, request: ProviderInvocation, reason: str) -> None:
        response = refuse(request.request.request_id, *REFUSALS[reason])
        self._send_refusal(response, request.is_stream, request.reply, request.headers)

    def on_end(self, request: ProviderInvocation) -> None:
        self._shares.release(request.request.tenant_id)

    def _send_refusal(self, response: ProviderResponse, is_stream: bool, reply: str, headers: Mapping[str, str]) -> None:
        write = _as_chunk if is_stream else response_bytes
        self._connection.publish_nowait(reply, write(response, protobuf=is_protobuf_wanted(headers)), "", REFUSAL_HEAD)


def _as_chunk(response: ProviderResponse, *, protobuf: bool) -> bytes:
    return chunk_bytes(last_chunk(response), protobuf=protobuf)


def _build_headers(request: ProviderRequest) -> dict[str, str]:
    return {**HEADERS, "trace_id": request.trace_id, "tenant_id": request.tenant_id}


def _id_in(data: bytes, headers: Mapping[str, str]) -> str:
    """The request id for the response to a refused invocation; of a protobuf request only the header is read."""
    found = extract_request_ids(data, headers) if data[:1] == b"{" else {}
    return found.get("request_id") or found.get("message_id") or message_id_in(headers) or ""
