"""An answer of a provider as an HTTP response: whole, or as server-sent events.

    whole    the JSON of the provider's service as it came; of a plain provider its text, wrapped
    stream   each piece one event, a comment while nothing comes, at the end the tokens for a client
             that asked for them, and [DONE]
    broken   after its first byte: an event with the error, and no [DONE]

What it cost stands in the header `x-router-cost`; of a stream in a comment before its last event,
and beside the tokens.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncGenerator, AsyncIterator, Mapping
from contextlib import aclosing
from typing import Generic, TypeVar

import orjson
from msgspec.structs import replace

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

log = logs.logger(__name__)

T = TypeVar("T")


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
    """One stream on its way to its client. `cost` is known at its end."""

    def __init__(self, asked: AskedRequest, opened: OpenedStream, keep_alive_s: float) -> None:
        self._asked = asked
        self._opened = opened
        self._pieces = KeptAlive(opened.chunks, keep_alive_s)
        self._head = make_head(asked, opened.attempt, opened.first.metadata)
        self._is_first = True
        self.refusal: GatewayRefusal | None = None  # why it broke

    async def write(self) -> AsyncGenerator[bytes, None]:
        """The events. A client that leaves closes it, and so the stream at its source."""
        async with aclosing(self._opened.chunks), aclosing(self._pieces.read()) as pieces:
            try:
                for data in self._write_chunk(self._opened.first):
                    yield data
                if not self._opened.first.done:
                    async for chunk in pieces:
                        if chunk is None:
                            yield KEEP_ALIVE
                            continue
                        for data in self._write_chunk(chunk):
                            yield data
            except GatewayRefusal as exc:
                self.refusal = exc
            except RouterError as exc:
                self.refusal = refuse_call(exc)
            except Exception as exc:
                # a stream that began ends with a word, whatever happens
                log.exception(
                    events.GATEWAY_FAILED, api=self._asked.api.api, error=type(exc).__name__
                )
                self.refusal = GatewayRefusal(INTERNAL, "The gateway failed")
            if self.refusal is not None:
                yield write_event(self.refusal.body)

    def interrupt(self) -> None:
        """The gateway stops: what comes next is the last event, an error."""
        self._pieces.interrupt(GatewayRefusal(STREAM_INTERRUPTED, STOPPING))

    def _write_chunk(self, chunk: StreamChunk) -> list[bytes]:
        data = chunk.data if isinstance(chunk.data, bytes) else chunk.data.encode()
        written = [self._write_piece(data)] if data else []
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


class KeptAlive(Generic[T]):
    """The items as they come; None for each span of silence."""

    def __init__(self, items: AsyncIterator[T], silence_s: float) -> None:
        self._items = items
        self._silence_s = silence_s
        self._waiting: asyncio.Future[T] | None = None
        self._end: GatewayRefusal | None = None

    def interrupt(self, end: GatewayRefusal) -> None:
        """From now on nothing is read: `read` raises this."""
        self._end = end
        if self._waiting is not None:
            self._waiting.cancel()

    async def read(self) -> AsyncGenerator[T | None, None]:
        """Raises what interrupted it."""
        try:
            while self._end is None:
                if self._waiting is None:
                    self._waiting = asyncio.ensure_future(anext(self._items))
                done, _ = await asyncio.wait({self._waiting}, timeout=self._silence_s)
                if not done:
                    yield None
                    continue
                finished, self._waiting = self._waiting, None
                if finished.cancelled():
                    continue
                try:
                    item = finished.result()
                except StopAsyncIteration:
                    return
                yield item
            raise self._end
        finally:
            if self._waiting is not None:
                self._waiting.cancel()
                await asyncio.wait({self._waiting})
