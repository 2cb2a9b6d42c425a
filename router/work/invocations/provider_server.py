"""Serves `beamline.provider.v1.invoke` and `….invoke.stream`, and calls the provider that the
registry names.

    client ── invoke ──> router ── beamline.provider.{id}.{version} ──> a provider of the registry
                            └── one ProviderResponse, or StreamChunks up to one that is `done`, to the inbox of the client

One instance of the queue group handles each request, in its own task. Every error is answered.
Tenants share the slots for requests in flight (`router.core.fair_slots`): one that opens as many
streams as it can leaves as many slots free. When the client stops listening to a stream
(`delivery.wire.calls.stream`), the router cancels it, and its provider stops the same way.
What a provider did is metered before its answer, or a stream's last chunk, goes out
(`work.invocations.invocation_bill`).

The same request again gets the first answer (`extensions.model.invocation_answers`); at the same time,
it waits for it (`FirstResponses`).
"""

from __future__ import annotations

import asyncio
from collections.abc import Mapping, Sequence

from msgspec import Struct
from msgspec.structs import replace

from router.config import Settings
from router.contracts.decision import INTERNAL, INVALID_REQUEST, UNAUTHORIZED
from router.contracts.extension import read_tick_s
from router.contracts.extract import digest_of, extract_request_ids, find_answer_id
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
from router.core.clock import Clock, steady
from router.core.errors import Conflict
from router.core.fair_slots import FairSlots
from router.core.message import NO_HEADERS
from router.core.single_flight import SingleFlight
from router.delivery.wire.calls import request_server
from router.delivery.wire.calls.request_server import ReplyAddresses, RequestServer
from router.delivery.wire.calls.stream import ReplyStream, ReplyStreams
from router.delivery.wire.connection import Connection, head_of
from router.delivery.wire.frames import Headers
from router.extensions.model.failure import (
    EXTENSION_TIMED_OUT,
    InvocationRefused,
    failed_response,
    make_too_large,
)
from router.extensions.model.invocation_answers import MAX_KEPT_BYTES, REPEATED, FirstAnswers
from router.extensions.model.providers import USUAL_S, ProviderInvoker
from router.process.observability import events, logs
from router.work.invocations.invocation_bill import InvocationMetering

# -- The server.

log = logs.logger(__name__)

OVERLOADED_CODE = "overloaded"
HEADERS = {"version": "1"}
REFUSAL_HEAD = head_of(HEADERS)
BILL_BYTES = 2_048  # room for what the router adds to metadata: what was billed
CHUNK_BYTES = 512  # of memory, beside a chunk's own
DRAIN_S = 5.0  # requests in flight may take this long when the router stops

REFUSALS: Mapping[str, tuple[str, str]] = {
    request_server.OVERLOADED: (OVERLOADED_CODE, "Too many invocations in flight; try again"),
    request_server.STOPPING: (INTERNAL, "The router is stopping; try again"),
    request_server.FAILED: (INTERNAL, "The invocation could not be handled"),
}
NOT_METERED = INTERNAL, "The invocation could not be metered"


class StreamReceipt:
    """What went out of a stream, as long as it is small enough to be given again, and its last
    chunk, until it may go out.
    """

    __slots__ = ("chunks", "last", "size")

    def __init__(self) -> None:
        self.chunks: list[StreamChunk] = []
        self.size = 0
        self.last: StreamChunk | None = None

    def take(self, chunk: StreamChunk, size: int) -> None:
        self.size += size + CHUNK_BYTES
        if chunk.done:
            self.last = chunk
        elif self.size <= MAX_KEPT_BYTES:
            self.chunks.append(chunk)
        else:
            self.chunks.clear()


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
        kept_bytes, ttl_s = self._config.kept_bytes // 2, settings.idempotency.ttl_ms / 1000
        self._answers = FirstResponses(kept_bytes, ttl_s)
        self._chunks: FirstAnswers[Sequence[StreamChunk]] = FirstAnswers(kept_bytes, ttl_s)

    async def run(self) -> None:
        """Serve until cancelled; then accept no request, and let those in flight finish."""
        async with self._streams, self._metering.open():
            await self.serve(
                self.on_message, INVOKE, INVOKE_STREAM, queue_group=self._config.queue_group
            )

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
            return refuse(_find_id(data, headers), INVALID_REQUEST, str(exc), metadata=metadata)
        except Exception as exc:  # every request gets a response
            log.exception(events.SERVICE_FAILED, service="providers", error=type(exc).__name__)
            return refuse(_find_id(data, headers), *REFUSALS[request_server.FAILED])
        if self._tenants and request.tenant_id not in self._tenants:
            return refuse(request.request_id, UNAUTHORIZED, "This tenant is not served here")
        if self._metering.is_paused(request.tenant_id):
            return failed_response(request, self._metering.make_refusal(), 0.0)
        if not self._shares.acquire(request.tenant_id):
            return refuse(request.request_id, *REFUSALS[request_server.OVERLOADED])
        return request

    async def answer(self, request: ProviderInvocation) -> None:
        asked, left_s = request.request, read_time_left(request.headers)
        if request.is_stream:
            await self._stream(request, left_s)
            return
        head = head_of(_build_headers(asked))
        data = await self._answer_once(asked, left_s, self._connection.max_payload - len(head))
        self._connection.publish_nowait(request.reply, data, "", head)

    async def _answer_once(
        self, request: ProviderRequest, left_s: float | None, max_bytes: int
    ) -> bytes:
        """The response: the first one again where the same request has had it, else the provider's."""
        if not request.has_own_id:
            return (await self._invoke(request, left_s, max_bytes))[1]
        content = request.digest()
        try:
            first = await self._find_response(
                request, content, USUAL_S if left_s is None else left_s
            )
        except InvocationRefused as exc:
            return response_bytes(
                failed_response(request, exc, 0.0), protobuf=request.wants_protobuf
            )
        if first is not None:
            first = _fit(
                request, replace(first, metadata={**first.metadata, **REPEATED}), max_bytes
            )
            return response_bytes(first, protobuf=request.wants_protobuf)
        kept: KeptResponse | None = None
        try:
            response, data = await self._invoke(request, left_s, max_bytes)
            kept = KeptResponse(response, len(data)) if response.ok else None
        finally:
            self._answers.release(request, content, kept)
        return data

    async def _find_response(
        self, request: ProviderRequest, content: str, within_s: float
    ) -> ProviderResponse | None:
        """As `FirstResponses.acquire`; raises InvocationRefused also where a stream had this id for
        other content.
        """
        try:
            self._chunks.check(request, content)
        except Conflict as exc:
            raise make_conflict() from exc
        return await self._answers.acquire(request, content, within_s)

    async def _invoke(
        self, request: ProviderRequest, left_s: float | None, max_bytes: int
    ) -> tuple[ProviderResponse, bytes]:
        """The metered response, also as bytes; where it is above `max_bytes`, one that says so in
        its place.
        """
        bill = self._metering.begin(request, is_stream=False)
        try:
            response = _fit(
                request, await self._providers.invoke(request, bill, left_s), max_bytes - BILL_BYTES
            )
            bill.end(response.status)
        finally:  # also of one that is cancelled
            is_metered = await bill.close()
        if is_metered:
            response = replace(
                response, cost=bill.cost, metadata={**response.metadata, **bill.describe()}
            )
        else:
            response = refuse(request.request_id, *NOT_METERED)
        return response, response_bytes(response, protobuf=request.wants_protobuf)

    async def _stream(self, invocation: ProviderInvocation, left_s: float | None) -> None:
        task, request = asyncio.current_task(), invocation.request
        assert task is not None  # noqa: S101 - a coroutine runs in a task
        tick_s = read_tick_s(invocation.headers)
        with self._streams.open(
            invocation.reply, task.cancel, _build_headers(request), tick_s
        ) as stream:
            content = request.digest() if request.has_own_id else ""
            try:
                first = self._find_stream(request, content) if request.has_own_id else None
            except Conflict:
                chunks: Sequence[StreamChunk] = (
                    last_chunk(failed_response(request, make_conflict(), 0.0)),
                )
            else:
                chunks = (
                    (await self._relay(request, stream, left_s, content),)
                    if first is None
                    else _mark_repeated(first)
                )
            self._send_chunks(request, stream, chunks)

    def _find_stream(self, request: ProviderRequest, content: str) -> Sequence[StreamChunk] | None:
        """Raises Conflict, also where a plain invocation had this id for other content."""
        self._answers.check(request, content)
        return self._chunks.find(request, content)

    def _send_chunks(
        self, request: ProviderRequest, stream: ReplyStream, chunks: Sequence[StreamChunk]
    ) -> None:
        """Chunks that were kept may be too large in another encoding than the first one's: then the
        stream ends with that.
        """
        max_bytes = self._connection.max_payload - len(head_of(_build_headers(request)))
        for chunk in chunks:
            data = chunk_bytes(chunk, protobuf=request.wants_protobuf)
            if len(data) > max_bytes:
                last = last_chunk(failed_response(request, make_too_large(), 0.0))
                stream.send(chunk_bytes(last, protobuf=request.wants_protobuf))
                return
            stream.send(data)

    async def _relay(
        self, request: ProviderRequest, stream: ReplyStream, left_s: float | None, content: str
    ) -> StreamChunk:
        """The chunks of the provider; the last one is returned when all is metered."""
        bill, receipt = self._metering.begin(request, is_stream=True), StreamReceipt()
        max_bytes = self._connection.max_payload - len(head_of(_build_headers(request)))

        def send(chunk: StreamChunk) -> None:
            data = chunk_bytes(chunk, protobuf=request.wants_protobuf)
            # the server would close the connection for it
            if len(data) > max_bytes - (BILL_BYTES if chunk.done else 0):
                raise make_too_large()
            receipt.take(chunk, len(data))
            if not chunk.done:
                stream.send(data)

        try:
            await self._providers.stream(request, send, bill, left_s)
        finally:  # also of one that is cut: its reader left, or the router stops
            is_metered = await bill.close()
        last = receipt.last
        if not is_metered or last is None:
            return last_chunk(refuse(request.request_id, *NOT_METERED))
        last = replace(last, metadata={**last.metadata, **bill.describe()})
        if request.has_own_id and not last.failed:
            self._chunks.keep(request, content, (*receipt.chunks, last), receipt.size)
        return last

    def refuse(self, request: ProviderInvocation, reason: str) -> None:
        response = refuse(request.request.request_id, *REFUSALS[reason])
        self._send_refusal(response, request.is_stream, request.reply, request.headers)

    def on_end(self, request: ProviderInvocation) -> None:
        self._shares.release(request.request.tenant_id)

    def _send_refusal(
        self, response: ProviderResponse, is_stream: bool, reply: str, headers: Mapping[str, str]
    ) -> None:
        write = _as_chunk if is_stream else response_bytes
        self._connection.publish_nowait(
            reply, write(response, protobuf=is_protobuf_wanted(headers)), "", REFUSAL_HEAD
        )


def _fit(request: ProviderRequest, response: ProviderResponse, max_bytes: int) -> ProviderResponse:
    """The response; a good one that is too large for the server becomes one that says so."""
    if (
        not response.ok
        or len(response_bytes(response, protobuf=request.wants_protobuf)) <= max_bytes
    ):
        return response
    return failed_response(request, make_too_large(), response.latency_ms)


def _mark_repeated(chunks: Sequence[StreamChunk]) -> Sequence[StreamChunk]:
    """The chunks of a stream that is given again; the last one says so."""
    *before, last = chunks
    return (*before, replace(last, metadata={**last.metadata, **REPEATED}))


def _as_chunk(response: ProviderResponse, *, protobuf: bool) -> bytes:
    return chunk_bytes(last_chunk(response), protobuf=protobuf)


def _build_headers(request: ProviderRequest) -> dict[str, str]:
    return {**HEADERS, "trace_id": request.trace_id, "tenant_id": request.tenant_id}


def _find_id(data: bytes, headers: Mapping[str, str]) -> str:
    """The request id for the response to a refused invocation; of a protobuf request only the
    header is read.
    """
    named = extract_request_ids(data, headers) if data[:1] == b"{" else {}
    return find_answer_id(named, headers, digest_of(data))


# -- The first responses of plain invocations.
#
# acquire ── a response that is kept, or that of the request under way
#     └── None: the caller asks the provider, and releases the id with its response


class KeptResponse(Struct, frozen=True):
    """A good response, and how many bytes it has."""

    response: ProviderResponse
    size: int


class FirstResponses:
    """`kept_bytes`: of all of them together."""

    def __init__(self, kept_bytes: int, ttl_s: float, clock: Clock = steady) -> None:
        self._kept: FirstAnswers[ProviderResponse] = FirstAnswers(kept_bytes, ttl_s, clock)
        self._in_progress: SingleFlight[tuple[str, ProviderResponse]] = SingleFlight()

    async def acquire(
        self, request: ProviderRequest, content: str, within_s: float
    ) -> ProviderResponse | None:
        """The response of the same request; None: the caller holds the id, and must release it.
        Raises InvocationRefused.
        """
        try:
            if (kept := self._kept.find(request, content)) is not None:
                return kept
            async with asyncio.timeout(within_s):
                first = await self._in_progress.acquire((request.tenant_id, request.request_id))
        except Conflict as exc:
            raise make_conflict() from exc
        except TimeoutError as exc:
            message = f"no answer within the {within_s * 1000:.0f} ms that were left"
            raise InvocationRefused(EXTENSION_TIMED_OUT, message, {}) from exc
        if first is None:
            return None
        if first[0] != content:
            raise make_conflict()
        return first[1]

    def check(self, request: ProviderRequest, content: str) -> None:
        """Raises Conflict where a request with this id had other content."""
        self._kept.check(request, content)

    def release(self, request: ProviderRequest, content: str, kept: KeptResponse | None) -> None:
        """Those who wait get the response too; where it is none to be kept, the next of them asks."""
        if kept is not None:
            self._kept.keep(request, content, kept.response, kept.size)
        self._in_progress.release(
            (request.tenant_id, request.request_id),
            (content, kept.response) if kept is not None else None,
        )


def make_conflict() -> InvocationRefused:
    """Another request had this id."""
    details = {"field": "message_id", "cause": "other_content"}
    return InvocationRefused(
        INVALID_REQUEST, "This message id was used for a different request", details
    )
