"""An answer of a provider as an HTTP response: whole, or as server-sent events.

    whole    the JSON of the provider's service as it came; of a plain provider its text, wrapped
    stream   each piece one event, at the end the tokens for a client
             that asked for them, and [DONE]
    broken   after its first byte: an event with the error, and no [DONE]

What it cost stands in the header `x-router-cost`; of a stream in a comment before its last event,
and beside the tokens.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncGenerator, Callable, Mapping
from contextlib import AbstractContextManager, aclosing, suppress
from typing import Any, Self

import orjson
from msgspec.structs import replace
from starlette.requests import ClientDisconnect
from starlette.responses import StreamingResponse
from starlette.types import Message, Receive, Scope, Send

from router.contracts.decision import INTERNAL
from router.contracts.provider_chunk import StreamChunk
from router.core.errors import RouterError
from router.core.ids import is_opaque
from router.gateway.calls import (
    AskedRequest,
    OpenedStream,
    ProviderAttempt,
    WholeAnswer,
    refuse_call,
)
from router.gateway.model.apis import (
    DONE,
    KEEP_ALIVE,
    RESPONSES,
    AnswerHead,
    count_usage,
    wrap_end,
    wrap_piece,
    wrap_text,
    wrap_usage,
    write_event,
)
from router.gateway.model.refusal import PROVIDER_FAILED, STREAM_INTERRUPTED, GatewayRefusal
from router.gateway.open_requests import STOPPING
from router.process.observability import events, logs
from router.sdk.providers import InvocationFailed

log = logs.logger(__name__)


def list_headers(
    asked: AskedRequest, attempt: ProviderAttempt, cost: str | None = None
) -> dict[str, str]:
    """What every answer says of its way."""
    return {
        "x-router-request-id": asked.request_id,
        "x-router-provider": attempt.decision.provider_id,
        "x-router-policy": attempt.policy,
        "x-router-attempts": str(attempt.number),
        **({} if cost is None else {"x-router-cost": cost}),
    }


def write_whole(asked: AskedRequest, answer: WholeAnswer) -> bytes:
    """The body of a whole answer. Raises GatewayRefusal where the provider's is no JSON object."""
    if answer.attempt.is_plain:
        head = make_head(asked, answer.attempt, answer.metadata)
        text = answer.body.decode("utf-8", "replace")
        return wrap_text(asked.api.api, head, text, count_usage(answer.metadata))
    require_object(answer.body)
    return answer.body


def require_object(data: bytes) -> Mapping[str, object]:
    """Raises GatewayRefusal for what is no JSON object: a client could not read it."""
    try:
        value = orjson.loads(data)
    except orjson.JSONDecodeError:
        value = None
    if not isinstance(value, dict):
        raise GatewayRefusal(PROVIDER_FAILED, "The provider's answer is no JSON object")
    return value


def make_head(
    asked: AskedRequest, attempt: ProviderAttempt, metadata: Mapping[str, str]
) -> AnswerHead:
    told = metadata.get("model", "")
    model = told if is_opaque(told) else attempt.model or asked.api.model
    return AnswerHead(asked.request_id, model, int(time.time()))


def find_cost(metadata: Mapping[str, str]) -> str | None:
    """What was billed, as a header and a comment can hold it."""
    cost = metadata.get("cost", "")
    return cost if is_opaque(cost) else None


class EventStream:
    """One stream on its way to its client."""

    def __init__(self, asked: AskedRequest, opened: OpenedStream) -> None:
        self._asked = asked
        self._opened = opened
        self._reading: asyncio.Task[Any] | None = None  # that waits for the next chunk
        self._end: GatewayRefusal | None = None  # why it must end now
        self._head = make_head(asked, opened.attempt, opened.first.metadata)
        self._is_first = True
        self.refusal: GatewayRefusal | None = None  # why it broke
        self.is_over = False  # what is not written yet waits for nothing
        self.cost: str | None = None  # known at its end

    def interrupt(self) -> None:
        """The gateway stops: what comes next is the last event, an error."""
        self._end = GatewayRefusal(STREAM_INTERRUPTED, STOPPING)
        if self._reading is not None:
            self._reading.cancel()

    async def write(self) -> AsyncGenerator[bytes, None]:
        """The events. A client that leaves closes it, and so the stream at its source."""
        async with aclosing(self._opened.chunks) as chunks:
            try:
                chunk: StreamChunk | None = self._opened.first
                while chunk is not None:
                    for data in self._write_chunk(chunk):
                        yield data
                    chunk = None if chunk.done else await self._read_next(chunks)
            except GatewayRefusal as exc:
                self.refusal = exc
            except RouterError as exc:
                self.refusal = refuse_call(exc)
                told = exc.metadata if isinstance(exc, InvocationFailed) else {}
                self.cost = find_cost(told)
            except Exception as exc:
                # a stream that began ends with a word, whatever happens
                log.exception(
                    events.GATEWAY_FAILED, api=self._asked.api.api, error=type(exc).__name__
                )
                self.refusal = GatewayRefusal(INTERNAL, "The gateway failed")
            self.is_over = True
            if self.refusal is not None:
                yield write_event(self.refusal.body)

    async def _read_next(self, chunks: AsyncGenerator[StreamChunk, None]) -> StreamChunk | None:
        """Raises why it must end, and what the stream raises."""
        self._require_time()
        self._reading = reading = asyncio.current_task()
        try:
            return await anext(chunks, None)
        except asyncio.CancelledError:
            if self._end is None or reading is None:
                raise
            reading.uncancel()
            raise self._end from None
        finally:
            self._reading = None

    def _require_time(self) -> None:
        """Raises why it must end."""
        if self._end is not None:
            raise self._end

    def _write_chunk(self, chunk: StreamChunk) -> list[bytes]:
        data = chunk.data if isinstance(chunk.data, bytes) else chunk.data.encode()
        written = [self._write_piece(data)] if data else []
        if chunk.done:
            self.is_over, self.cost = True, find_cost(chunk.metadata)
        return [*written, *self._write_end(chunk.metadata)] if chunk.done else written

    def _write_piece(self, data: bytes) -> bytes:
        if not self._opened.attempt.is_plain:
            event = require_object(data)
            if isinstance(written_id := event.get("id"), str):
                self._head = replace(self._head, written_id=written_id)
            name = event.get("type") if self._asked.api.api == RESPONSES else None
            return write_event(data, name if isinstance(name, str) else None)
        text = data.decode("utf-8", "replace")
        is_first, self._is_first = self._is_first, False
        return write_event(wrap_piece(self._asked.api.api, self._head, text, is_first=is_first))

    def _write_end(self, metadata: Mapping[str, str]) -> list[bytes]:
        api, end = self._asked.api.api, []
        if self._opened.attempt.is_plain:
            end.append(write_event(wrap_end(api, self._head)))
        usage, cost = count_usage(metadata), find_cost(metadata)
        if self._asked.api.wants_usage and usage is not None and api != RESPONSES:
            end.append(write_event(wrap_usage(api, self._head, {**usage, "router_cost": cost})))
        if cost is not None:
            end.append(b": x-router-cost " + cost.encode() + b"\n\n")
        return end if api == RESPONSES else [*end, DONE]


# -- A stream on its way to one client: it gives its place back however it ends, and is never silent
# for long. One timer serves a whole stream: a timer and a task for each event would cost more than
# the event.


class HeldStream(StreamingResponse):
    """A stream whose source is closed, and whose place is given back, however it ends. In each
    silence of `keep_alive_s` a comment is sent. `held`: entered while it is under way.
    """

    def __init__(
        self,
        events: AsyncGenerator[bytes, None],
        held: AbstractContextManager[None],
        on_end: Callable[[], None],
        keep_alive_s: float,
        **options: Any,
    ) -> None:
        super().__init__(events, **options)
        self._events = events
        self._held = held
        self._on_end = on_end
        self._keep_alive_s = keep_alive_s

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        try:
            silence = SilenceComments(send, self._keep_alive_s)
            with suppress(ClientDisconnect), self._held, silence as sender:
                await super().__call__(scope, receive, sender.send)
        finally:
            try:
                await self._events.aclose()
            finally:
                self._on_end()


class SilenceComments:
    """Passes a response's messages on, and sends a comment after each silence of `span_s`.

    Each message holds whole events, so that a comment may stand between any two.
    """

    def __init__(self, send: Send, span_s: float) -> None:
        self._send = send
        self._span_s = span_s
        self._loop = asyncio.get_running_loop()
        self._timer: asyncio.TimerHandle | None = None
        self._comment: asyncio.Task[None] | None = None
        self._sent_at = self._loop.time()
        self._is_open = False  # from its head to its last part

    def __enter__(self) -> Self:
        self._wait(self._span_s)
        return self

    def __exit__(self, *_: object) -> None:
        self._is_open = False
        for waiting in (self._timer, self._comment):
            if waiting is not None:
                waiting.cancel()

    async def send(self, message: Message) -> None:
        self._sent_at = self._loop.time()
        # a head does not say whether there is more: there is
        self._is_open = message.get("more_body", True)
        await self._send(message)

    def _wait(self, seconds: float) -> None:
        self._timer = self._loop.call_later(seconds, self._on_time)

    def _on_time(self) -> None:
        left_s = self._sent_at + self._span_s - self._loop.time()
        if left_s > 0:
            self._wait(left_s)
            return
        # a comment that waits for a slow reader is enough
        if self._is_open and (self._comment is None or self._comment.done()):
            self._comment = self._loop.create_task(self._send_comment())
        self._wait(self._span_s)

    async def _send_comment(self) -> None:
        part = {"type": "http.response.body", "body": KEEP_ALIVE, "more_body": True}
        # the client left, or the response ended while this waited: its own send hears of that
        with suppress(OSError, RuntimeError):
            if self._is_open:
                await self._send(part)
