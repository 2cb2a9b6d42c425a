"""Serves `beamline.provider.v1.invoke` and `….invoke.stream`, and calls the provider that the registry names.

    client ── invoke ──> router ── beamline.provider.{id}.{version} ──> a provider of the registry
                            └── one ProviderResponse, or StreamChunks up to one that is `done`, to the inbox of the client

One instance of the queue group handles each request, in its own task. Every error is answered. Tenants share the slots
for requests in flight (`router.core.fair_slots`): one that opens as many streams as it can leaves as many slots free. When the client stops
listening to a stream (`delivery.calls.reply_streams`), the router cancels it, and its provider stops the same way.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine, Mapping
from functools import partial
from typing import Any

from router.app.app_context import AppContext
from router.app.provider_invoker import build_provider_invoker
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
from router.core.fair_slots import FairSlots
from router.core.ids import is_literal_subject
from router.core.message import NO_HEADERS
from router.delivery.calls.reply_streams import ReplyStreams
from router.delivery.connection import head_of
from router.delivery.frame_parser import Headers
from router.operations.observability import events, logs
from router.services.own_inboxes import own_inboxes
from router.services.refused_addresses import note_refused

log = logs.logger(__name__)

OVERLOADED = "overloaded"
HEADERS = {"version": "1"}
REFUSAL_HEAD = head_of(HEADERS)
DRAIN_S = 5.0  # requests in flight may take this long when the router stops

Serve = Callable[[str, ProviderRequest, Mapping[str, str]], Coroutine[Any, Any, None]]


class ProviderServer:
    """The child "providers"."""

    def __init__(self, context: AppContext) -> None:
        settings = context.settings
        self._connection = context.connections.providers
        self._config = settings.providers
        self._limits = (settings.max_payload_bytes, settings.max_depth)
        self._tenants = frozenset(settings.tenants_allowed)
        self._prefixes, self._own = settings.reply.prefixes, own_inboxes(settings, context.connection)
        self._note_refused = note_refused(context.metrics, "providers")
        self._streams = ReplyStreams(self._connection)
        self._providers = build_provider_invoker(context)
        self._tasks: set[asyncio.Task[None]] = set()
        self._shares = FairSlots(self._config.at_once)
        self._is_stopping = False

    async def run(self) -> None:
        """Serve until cancelled; then accept no request, and let those in flight finish."""
        self._is_stopping = False
        connection, group = self._connection, self._config.queue_group
        async with self._streams:
            subscriptions = [
                await connection.subscribe_direct(INVOKE, partial(self._on_invocation, self._invoke), group),
                await connection.subscribe_direct(INVOKE_STREAM, partial(self._on_invocation, self._stream), group),
            ]
            try:
                await asyncio.Event().wait()
            finally:
                for sid in subscriptions:
                    await connection.unsubscribe(sid)
                await self._finish()

    def _on_invocation(self, serve: Serve, subject: str, reply: str, data: bytes, headers: Headers | None) -> None:
        if not (reply.startswith(self._prefixes) and not reply.startswith(self._own) and is_literal_subject(reply)):
            if reply:
                self._note_refused(reply)
            return  # the reply subject is input, and without a usable one the invocation is not worth its cost
        headers_read = headers or NO_HEADERS
        request = self._admit(data, headers_read)
        if isinstance(request, ProviderResponse):
            self._refuse(request, subject, reply, headers_read)
            return
        task = asyncio.get_running_loop().create_task(self._serve_one(serve, request, subject, reply, headers_read))
        self._tasks.add(task)
        task.add_done_callback(partial(self._on_done, request.tenant_id))

    def _admit(self, data: bytes, headers: Mapping[str, str]) -> ProviderRequest | ProviderResponse:
        """The request, after its tenant has taken a slot; or the response that refuses it."""
        try:
            request = read_request(data, headers, *self._limits)
        except Malformed as exc:
            metadata = {"field": exc.field} if exc.field else {}
            return refuse(_id_in(data, headers), INVALID_REQUEST, str(exc), metadata=metadata)
        except Exception as exc:  # every request gets a response
            log.exception(events.SERVICE_FAILED, service="providers", error=type(exc).__name__)
            return refuse(message_id_in(headers) or "", INTERNAL, "The invocation could not be handled")
        if self._tenants and request.tenant_id not in self._tenants:
            return refuse(request.request_id, UNAUTHORIZED, "This tenant is not served here")
        if not self._shares.acquire(request.tenant_id):
            return refuse(request.request_id, OVERLOADED, "Too many invocations in flight; try again")
        return request

    def _on_done(self, tenant_id: str, task: asyncio.Task[None]) -> None:
        self._tasks.discard(task)
        self._shares.release(tenant_id)

    async def _serve_one(self, serve: Serve, request: ProviderRequest, subject: str, reply: str, headers: Mapping[str, str]) -> None:
        """Serve one request. Every error is answered, except on a stream whose client has left."""
        try:
            await serve(reply, request, headers)
        except asyncio.CancelledError:
            if self._is_stopping:
                self._refuse(refuse(request.request_id, INTERNAL, "The router is stopping; try again"), subject, reply, headers)
            raise
        except Exception as exc:  # every request gets a response
            log.exception(events.SERVICE_FAILED, service="providers", error=type(exc).__name__)
            self._refuse(refuse(request.request_id, INTERNAL, "The invocation could not be handled"), subject, reply, headers)

    async def _invoke(self, reply: str, request: ProviderRequest, headers: Mapping[str, str]) -> None:
        response = await self._providers.invoke(request, read_time_left(headers))
        self._connection.publish_nowait(reply, response_bytes(response, protobuf=request.wants_protobuf), "", _head(request))

    async def _stream(self, reply: str, request: ProviderRequest, headers: Mapping[str, str]) -> None:
        task = asyncio.current_task()
        assert task is not None  # noqa: S101 - a coroutine runs in a task
        with self._streams.open(reply, task.cancel, _build_headers(request)) as stream:

            def send(chunk: StreamChunk) -> None:
                stream.send(chunk_bytes(chunk, protobuf=request.wants_protobuf))

            await self._providers.stream(request, send, read_time_left(headers))

    def _refuse(self, response: ProviderResponse, subject: str, reply: str, headers: Mapping[str, str]) -> None:
        write = response_bytes if subject == INVOKE else _as_chunk
        self._connection.publish_nowait(reply, write(response, protobuf=is_protobuf_wanted(headers)), "", REFUSAL_HEAD)

    async def _finish(self) -> None:
        if self._tasks:
            await asyncio.wait(self._tasks, timeout=DRAIN_S)
        self._is_stopping = True
        for task in self._tasks:
            task.cancel()
        if self._tasks:
            await asyncio.wait(self._tasks)


def _as_chunk(response: ProviderResponse, *, protobuf: bool) -> bytes:
    return chunk_bytes(last_chunk(response), protobuf=protobuf)


def _build_headers(request: ProviderRequest) -> dict[str, str]:
    return {**HEADERS, "trace_id": request.trace_id, "tenant_id": request.tenant_id}


def _head(request: ProviderRequest) -> bytes:
    return head_of(_build_headers(request))


def _id_in(data: bytes, headers: Mapping[str, str]) -> str:
    """The request id for the response to a refused invocation; of a protobuf request only the header is read."""
    found = extract_request_ids(data, headers) if data[:1] == b"{" else {}
    return found.get("request_id") or found.get("message_id") or message_id_in(headers) or ""
