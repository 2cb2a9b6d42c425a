"""A request that has a name, on its way to one answer: what is kept of it, and for whom it runs on.

    whole     runs to its end, also when its client left: the same request gets the answer
    stream    a client that leaves ends it, as ever; then it is kept as interrupted
    failed    before a provider was asked, or refused: forgotten; later: kept as the answer

An answer is kept before its client has the end of it.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, Callable, Coroutine, Iterator
from contextlib import aclosing, contextmanager

from starlette.responses import Response

from router.gateway.answers import EventStream
from router.gateway.calls import AskedRequest
from router.gateway.kept_answers import KeptAnswers, RunningRequest, make_running
from router.gateway.model import kept_answer
from router.gateway.model.apis import KEEP_ALIVE
from router.gateway.model.kept_answer import MAX_KEPT_BYTES, REQUEST_ID, KeptAnswer
from router.gateway.model.refusal import GatewayRefusal

EVENT_STREAM = "text/event-stream"


class AskedOnce:
    """For all requests of a gateway."""

    def __init__(self, answers: KeptAnswers) -> None:
        self._answers = answers

    async def begin(
        self, identity: str, asked: AskedRequest, body: bytes, within_s: float
    ) -> RunningRequest | KeptAnswer:
        """Begin it, or get its answer. Raises GatewayRefusal."""
        record = make_running(
            kept_answer.digest_content(asked.api.api, asked.policy_id, body), asked.request_id
        )
        return await self._answers.begin(asked.tenant_id, identity, record, within_s)

    def answer(
        self,
        asked: AskedRequest,
        running: RunningRequest,
        work: Coroutine[object, object, Response],
        on_end: Callable[[], None],
    ) -> asyncio.Future[Response]:
        """What `work` answers, which goes on when its client has left. `on_end`: it is over."""
        task = asyncio.ensure_future(_answer(asked, running, work))
        self._answers.hold(task, on_end)
        return asyncio.shield(task)


async def _answer(
    asked: AskedRequest, running: RunningRequest, work: Coroutine[object, object, Response]
) -> Response:
    with ending_failures(asked, running):
        response = await work
    await running.keep(
        KeptAnswer(
            status=response.status_code,
            headers=list_own_headers(response),
            media_type=response.media_type or "",
            body=bytes(response.body),
        )
    )
    return response


@contextmanager
def ending_failures(asked: AskedRequest, running: RunningRequest | None) -> Iterator[None]:
    """What fails inside ends the request: forgotten, or kept as a failure."""
    try:
        yield
    except GatewayRefusal as exc:
        if running is not None:
            _end_request(asked, running, exc)
        raise
    except BaseException:  # a client that left, too
        if running is not None and asked.called:
            running.keep_later(kept_answer.keep_interruption(asked.request_id))
        elif running is not None:
            running.forget()
        raise


def _end_request(asked: AskedRequest, running: RunningRequest, refusal: GatewayRefusal) -> None:
    if kept_answer.is_kept(refusal, is_called=bool(asked.called)):
        running.keep_later(kept_answer.keep_failure(refusal, {REQUEST_ID: asked.request_id}))
    else:
        running.forget()


async def keep_events(
    stream: EventStream, asked: AskedRequest, running: RunningRequest, headers: dict[str, str]
) -> AsyncGenerator[bytes, None]:
    """The events of a stream. Its last ones are written when all are kept."""
    parts = KeptParts()
    async with aclosing(stream.write()) as events:
        async for data in events:
            parts.add(data)
            if not stream.is_over:
                yield data
                continue
            last = [data]
            async for more in events:
                parts.add(more)
                last.append(more)
            await running.keep(_make_answer(stream, asked, parts, headers))
            for written in last:
                yield written


def interrupt(asked: AskedRequest, running: RunningRequest | None) -> None:
    """Of a stream that its client left, wherever it was."""
    if running is not None and not running.is_over:
        running.keep_later(kept_answer.keep_interruption(asked.request_id))


def _make_answer(
    stream: EventStream, asked: AskedRequest, parts: KeptParts, headers: dict[str, str]
) -> KeptAnswer:
    if stream.refusal is not None:
        return kept_answer.keep_interruption(asked.request_id, stream.cost)
    told = {**headers, **({kept_answer.COST: stream.cost} if stream.cost is not None else {})}
    answer = KeptAnswer(status=200, headers=told, media_type=EVENT_STREAM, body=parts.join())
    return answer if parts.is_whole else kept_answer.keep_note(answer)


class KeptParts:
    """Of a stream, without its comments that nothing came; no more of them than can be kept."""

    def __init__(self) -> None:
        self._parts: list[bytes] = []
        self._size = 0

    def add(self, data: bytes) -> None:
        if data != KEEP_ALIVE and self.is_whole:
            self._parts.append(data)
            self._size += len(data)
            if self._size > MAX_KEPT_BYTES:
                self._parts.clear()

    @property
    def is_whole(self) -> bool:
        return self._size <= MAX_KEPT_BYTES

    def join(self) -> bytes:
        return b"".join(self._parts)


def list_own_headers(response: Response) -> dict[str, str]:
    return {name: value for name, value in response.headers.items() if name.startswith("x-router-")}


def repeat(answer: KeptAnswer) -> Response:
    """The same answer again. OpenAI's clients do not repeat what says that it is in vain."""
    vain = {"x-should-retry": "false"} if answer.status >= 400 else {}
    headers = {**answer.headers, **vain, kept_answer.REPEATED: "true"}
    return Response(answer.body, answer.status, headers, answer.media_type)
