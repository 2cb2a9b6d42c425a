"""Invoking a provider through the router, from Python: the half of `Client` that does it.

    response = await client.invoke(tenant_id="acme", provider_id="echo", prompt="hello")
    print(response.body, response.metadata.get("completion_tokens"))

    async for chunk in client.invoke_stream(tenant_id="acme", provider_id="echo", prompt="hello"):
        print(chunk.data, end="")

The router finds the provider in its registry, calls it within the time that is left, and measures
it. A loop that is left early, or cancelled, stops the stream at its source: the subscription ends,
and the server tells the sender, whose streams are `delivery.wire.calls.stream`.
"""

from __future__ import annotations

import uuid
from collections.abc import AsyncGenerator, Callable, Mapping
from contextlib import aclosing
from types import MappingProxyType
from typing import TypeVar

from router.contracts.extension import DEADLINE, TICK, TICK_MS
from router.contracts.provider import INVOKE, INVOKE_STREAM, ProviderResponse, read_response
from router.contracts.provider_chunk import StreamChunk, read_chunk
from router.contracts.provider_request import ProviderRequest, request_bytes
from router.core.clock import now_ms
from router.core.errors import CallTimeout, NoResponders, NoRouter, RouterError, Unanswered
from router.delivery.wire.calls.stream import AMPLE_ROOM, Stream, StreamRoom
from router.delivery.wire.connection import Connection, head_of

T = TypeVar("T")
NOTHING: Mapping[str, object] = MappingProxyType({})

# above what a registry entry may grant a provider: the router speaks first
LONGEST_SILENCE_S = 65.0
MARGIN_S = 0.1  # so that the router's own word about a timeout is still heard


class InvocationFailed(RouterError):
    """A stream ended, and not well. `code` as in a ProviderResponse, or `stream_broken`: pieces of
    it were lost.
    """

    def __init__(
        self, code: str, message: str, metadata: Mapping[str, str] = MappingProxyType({})
    ) -> None:
        super().__init__(f"{code}: {message}")
        self.code = code
        self.metadata = metadata


class ProviderCalls:
    """What `Client` lends: a connection, and a question with its answer."""

    def _open(self) -> Connection:
        raise NotImplementedError

    async def _wait_for_connection(self, timeout_s: float) -> float:
        """Return the seconds that are left. Raises BrokerUnavailable."""
        raise NotImplementedError

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
        raise NotImplementedError

    def _find_room(self, _tenant_id: str) -> StreamRoom:
        """For pieces that are not read yet."""
        return AMPLE_ROOM

    async def invoke(
        self,
        *,
        tenant_id: str,
        provider_id: str,
        prompt: str | bytes,
        parameters: Mapping[str, object] = NOTHING,
        context: Mapping[str, object] = NOTHING,
        request_id: str | None = None,
        trace_id: str | None = None,
        timeout: float = 30.0,  # noqa: ASYNC109 - a request's deadline is part of asking
    ) -> ProviderResponse:
        """One question, one response, which may say no. `context.policy_id` may choose a version.

        `timeout`: seconds; the provider gets what is left of it. Raises Unanswered,
        BrokerUnavailable (nothing was sent).
        """
        request = _request(
            tenant_id=tenant_id,
            provider_id=provider_id,
            prompt=prompt,
            parameters=parameters,
            context=context,
            request_id=request_id,
            trace_id=trace_id,
        )
        left_s = await self._wait_for_connection(timeout)
        return await self._ask(
            INVOKE,
            request_bytes(request, now_ms()),
            _headers(request, left_s),
            read_response,
            timeout=left_s,
        )

    async def invoke_stream(
        self,
        *,
        tenant_id: str,
        provider_id: str,
        prompt: str | bytes,
        parameters: Mapping[str, object] = NOTHING,
        context: Mapping[str, object] = NOTHING,
        request_id: str | None = None,
        trace_id: str | None = None,
        timeout: float = 300.0,  # noqa: ASYNC109
    ) -> AsyncGenerator[StreamChunk, None]:
        """The chunks as they come; the last one is `done`, and its metadata says what the whole
        took.

        `timeout`: seconds for the whole stream. Raises InvocationFailed in place of a last chunk
        that says so, Unanswered when no router serves providers, BrokerUnavailable when the
        connection is lost meanwhile: nothing is missed in silence.
        """
        request = _request(
            tenant_id=tenant_id,
            provider_id=provider_id,
            prompt=prompt,
            parameters=parameters,
            context=context,
            request_id=request_id,
            trace_id=trace_id,
        )
        left_s = await self._wait_for_connection(timeout)
        head = head_of({**_headers(request, left_s), TICK: str(TICK_MS)})
        stream = Stream(
            self._open(),
            INVOKE_STREAM,
            request_bytes(request, now_ms()),
            head,
            silence_s=min(left_s, LONGEST_SILENCE_S),
            leaves_at_once=True,
            room=self._find_room(tenant_id),
        )
        async with aclosing(_chunks(stream)) as chunks:
            async for chunk in chunks:
                yield chunk


async def _chunks(stream: Stream) -> AsyncGenerator[StreamChunk, None]:
    heard = 0
    try:
        async with stream as pieces:
            async for piece in pieces:
                chunk = read_chunk(piece.data)
                heard += 1
                _check(chunk, heard)
                yield chunk
                if chunk.done:
                    return
    except NoResponders as exc:
        raise NoRouter(
            f"no subscriber on {INVOKE_STREAM}: no router serves providers on this server"
        ) from exc
    except CallTimeout as exc:
        raise Unanswered(f"the stream on {INVOKE_STREAM} fell silent: {exc}") from exc


def _check(chunk: StreamChunk, heard: int) -> None:
    if chunk.failed:
        raise InvocationFailed(
            chunk.metadata.get("error_code", "internal"),
            chunk.metadata.get("error_message", "the stream failed"),
            chunk.metadata,
        )
    if chunk.done and chunk.metadata.get("chunks", str(heard)) != str(heard):
        raise InvocationFailed(
            "stream_broken", f"{heard} chunks of {chunk.metadata['chunks']} arrived", chunk.metadata
        )


def _request(
    *,
    tenant_id: str,
    provider_id: str,
    prompt: str | bytes,
    parameters: Mapping[str, object],
    context: Mapping[str, object],
    request_id: str | None,
    trace_id: str | None,
) -> ProviderRequest:
    return ProviderRequest(
        provider_id=provider_id,
        tenant_id=tenant_id,
        request_id=request_id or str(uuid.uuid4()),
        trace_id=trace_id or uuid.uuid4().hex,
        body=prompt,
        parameters=parameters,
        metadata=context,
    )


def _headers(request: ProviderRequest, timeout_s: float) -> dict[str, str]:
    left_s = timeout_s - min(MARGIN_S, timeout_s / 10)
    return {
        "version": "1",
        "tenant_id": request.tenant_id,
        "trace_id": request.trace_id,
        "Nats-Msg-Id": request.request_id,
        DEADLINE: str(max(1, round(left_s * 1000))),
    }
