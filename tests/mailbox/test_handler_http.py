"""A service told of an event over HTTP: what it is told, and what its answers mean."""

import asyncio
import json
import time
from collections import Counter

import pytest
from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route

from router.core.errors import Misconfigured
from router.mailbox.inbox.event import InboxEvent, read_event
from router.mailbox.inbox.handling import (
    Blame,
    HandlerAnswer,
    HandlerPermit,
    HandlerResult,
    InboxUnavailable,
)
from router.mailbox.inbox.http_handler import HttpEventHandler, HttpRules
from router.mailbox.ports import EventHandler, current_message
from router.sdk.samples.service import SampleService
from tests.support.inbox import STORED_NS, a_message, a_service, an_id, deaf, nowhere, says

MEANINGS = {
    **dict.fromkeys((200, 201, 204), HandlerResult.PROCESSED),
    409: HandlerResult.ALREADY_PROCESSED,
    422: HandlerResult.POISON,
    **dict.fromkeys(
        (301, 302, 400, 401, 403, 404, 408, 429, 500, 502, 503), HandlerResult.TRANSIENT
    ),
}


UNSERVED = {**dict.fromkeys((301, 302, 400, 401, 403, 404), Blame.UNKNOWN), 429: Blame.SERVICE}


class Witness:
    """A breaker that only counts; `is_shut` when told."""

    def __init__(self) -> None:
        self.told: Counter[str] = Counter()
        self.is_open = False

    def acquire(self, seconds: float) -> HandlerPermit | None:
        return None if self.is_open else self

    def record_success(self, latency_ms: float) -> None:
        self.told["succeeded"] += 1

    def record_failure(self) -> None:
        self.told["failed"] += 1

    def release(self) -> None:
        self.told["left"] += 1


@pytest.mark.parametrize("status", MEANINGS)
async def test_every_status_has_its_meaning(status: int) -> None:
    """SD-11, SD-12, SD-13, SD-33, SD-34; T4 without the acks."""
    async with a_service(SampleService().app) as url:
        answer = await _answer(url, payload={"answer": status})
    assert answer == HandlerAnswer(MEANINGS[status], str(status), UNSERVED.get(status, Blame.EVENT))


async def test_the_service_is_told_the_eight_fields() -> None:
    """SD-32."""
    told: list[bytes] = []

    async def hear(request: Request) -> Response:
        told.append(await request.body())
        return Response()

    async with a_service(Starlette(routes=[Route("/handle", hear, methods=["POST"])])) as url:
        await _answer(
            url, payload={"n": 1}, headers={"Nats-Msg-Id": an_id(7), "Correlation-Id": an_id(8)}
        )
    assert json.loads(told[0]) == {
        "message_id": an_id(7),
        "subject": "vibespro.event.vibe_created.v1",
        "event_type": "vibe_created",
        "event_version": 1,
        "occurred_at": "2023-11-14T22:13:20.123457Z",
        "correlation_id": an_id(8),
        "causation_id": None,
        "payload": {"n": 1},
    }
    assert STORED_NS // 10**9 == 1_700_000_000


async def test_no_answer_in_time_is_a_failure() -> None:
    """SD-13, SD-33: a timeout is as a 5xx."""
    async with a_service(SampleService().app) as url:
        # half of it is for the connection
        answer = await _answer(url, payload={"seconds": 60}, timeout_s=8.0)
        assert answer == HandlerAnswer(HandlerResult.TRANSIENT, "timeout")


@pytest.mark.parametrize(
    "answer",
    [None, b"", b"\x00\x01\x02", b"HTTP/1.1 200", b"HTTP/1.1 200 OK\r\nContent-Length: 9\r\n\r\n"],
)
async def test_what_is_no_answer_is_a_failure(answer: bytes | None) -> None:
    """SD-34."""
    async with says(answer) as url:
        assert (await _answer(url)).result is HandlerResult.TRANSIENT


async def test_an_absent_service_is_no_failure_of_the_event() -> None:
    """SD-34, X19."""
    breaker = Witness()
    with pytest.raises(InboxUnavailable, match="no connection"):
        await _answer(nowhere(), breaker=breaker)
    assert breaker.told == {"failed": 1}


async def test_a_process_that_stood_still_while_it_connected_blames_no_event() -> None:
    """Both times were over at once, that of the connection and that of the answer: the longer one
    was told, and spent a delivery.
    """
    async with deaf() as url:
        asked = asyncio.create_task(_answer(url, timeout_s=0.2))
        for _ in range(20):
            await asyncio.sleep(0)
        time.sleep(0.4)  # noqa: ASYNC251 - the loop stands still
        with pytest.raises(InboxUnavailable, match="no connection"):
            await asked


async def test_an_answer_without_end_is_not_read_to_its_end() -> None:
    async with says(b"HTTP/1.1 200 OK\r\nContent-Length: 99999999\r\n\r\n" + b"x" * 300_000) as url:
        assert (await _answer(url)).result is HandlerResult.PROCESSED


async def test_the_breaker_hears_of_a_service_not_of_its_verdicts() -> None:
    """Poison is a good answer, 5xx and silence are not; of a wrong address it hears nothing."""
    breaker = Witness()
    async with a_service(SampleService().app) as url:
        for status in (200, 409, 422, 500, 401):
            await _answer(url, payload={"answer": status}, breaker=breaker)
    assert breaker.told == {"succeeded": 3, "failed": 1, "left": 1}


async def test_a_call_without_a_waiter_is_neither() -> None:
    breaker = Witness()
    async with a_service(SampleService().app) as url:
        with pytest.raises(TimeoutError):
            await asyncio.wait_for(_answer(url, payload={"seconds": 30}, breaker=breaker), 0.05)
    assert breaker.told == {"left": 1}


async def test_while_the_breaker_is_open_no_service_is_called() -> None:
    breaker = Witness()
    breaker.is_open = True
    with pytest.raises(InboxUnavailable):
        await _answer(nowhere(), breaker=breaker)


async def test_it_is_the_ports_handler_too() -> None:
    """SD-25, SD-35: one for the process; what its two arguments lack is the message at hand."""
    async with a_service(SampleService().app) as url:
        handler = HttpEventHandler(HttpRules(url=url))
        port: EventHandler = handler
        current_message.set(a_message(headers={"Nats-Msg-Id": an_id(1)}))
        assert await port.handle("vibe_created", {}) is HandlerResult.PROCESSED
        assert await port.handle("vibe_created", {}) is HandlerResult.ALREADY_PROCESSED
        await handler.close()


@pytest.mark.parametrize("url", ["", "localhost:8000/handle", "ftp://x/handle", "http://"])
def test_an_address_that_cannot_be_asked_is_refused_at_the_start(url: str) -> None:
    with pytest.raises(Misconfigured, match=r"inbox\.handler\.url"):
        HttpEventHandler(HttpRules(url=url))


async def _answer(
    url: str,
    *,
    payload: object = None,
    headers: dict[str, str] | None = None,
    timeout_s: float = 30.0,
    breaker: Witness | None = None,
) -> HandlerAnswer:
    event = read_event(a_message(json.dumps(payload).encode(), headers=headers))
    assert isinstance(event, InboxEvent)
    handler = HttpEventHandler(HttpRules(url=url, timeout_s=timeout_s), breaker)
    try:
        return await handler.answer(event)
    finally:
        await handler.close()
