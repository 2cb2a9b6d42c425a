"""Events handled by an inbox, in the row's transaction or over HTTP; and, as the yardstick, the
same calls by a bare HTTP client.
"""

from __future__ import annotations

import asyncio
import contextlib
import socket

import httpx2
import orjson
import uvicorn

from bench.broker import jetstream_on
from bench.child import Ready
from bench.question import Measured
from bench.stretch import stretch
from router.config import load
from router.core.ids import derived_uuid
from router.delivery.wire.connection import head_of
from router.mailbox.inbox.event import InboxEvent
from router.mailbox.inbox_process import InboxService
from router.mailbox.postgres import Driver
from router.sdk.samples.service import SampleService

SUBJECT = "vibespro.event.vibe_created.v1"
BATCH = 500
EFFECT = "INSERT INTO effects (message_id, note) VALUES (%s, %s)"


def body(number: int) -> bytes:
    return orjson.dumps(
        {"vibe_id": f"v-{number}", "amount": number, "currency": "EUR", "note": "x" * 100}
    )


async def fill(ready: Ready, *, url: str, count: int) -> Measured:
    """Store events 0 … count - 1."""
    async with jetstream_on(url) as jetstream:
        for number in range(count):
            head = head_of(
                {
                    "Nats-Msg-Id": derived_uuid("bench", str(number)),
                    "Event-Type": "vibe_created",
                    "Event-Version": "1",
                }
            )
            jetstream.connection.publish_nowait(SUBJECT, body(number), "", head)
            if number % BATCH == BATCH - 1:
                await jetstream.connection.flush()
        while ((await jetstream.stream("VIBESPRO_EVENTS")) or {})["state"]["last_seq"] < count:  # noqa: ASYNC110 - asks the server
            await asyncio.sleep(0.005)
    return {"stored": count}


async def handle(connection: Driver, event: InboxEvent) -> None:
    await connection.execute(EFFECT, (event.message_id, event.payload["note"]))


async def inbox(
    ready: Ready, *, url: str, dsn: str, handler: str | None, in_hand: int, first: int, last: int
) -> Measured:
    """From event `first`, when its start is over, to the last that is acknowledged."""
    given = {
        "nats.url": url,
        "mailbox.dsn": dsn,
        "inbox.handler.url": handler,
        "inbox.max_ack_pending": in_hand,
        "log.level": "error",
        "http.port": 0,
    }
    service = InboxService(load(None, given, {}).settings, None if handler else handle)
    task = asyncio.create_task(service.run())
    try:
        return await stretch(lambda: service.figures.settled, first, last)
    finally:
        task.cancel()
        with contextlib.suppress(asyncio.CancelledError):
            await task


async def service(ready: Ready) -> Measured:
    """The sample service, until it is killed."""
    config = uvicorn.Config(
        SampleService().app, lifespan="off", ws="none", log_config=None, access_log=False
    )
    with socket.create_server(("127.0.0.1", 0), backlog=512) as listener:
        ready(url=f"http://127.0.0.1:{listener.getsockname()[1]}/handle")
        await uvicorn.Server(config).serve([listener])
    return {}


async def calls(ready: Ready, *, handler: str, at_once: int, first: int, last: int) -> Measured:
    """The yardstick: as many callers as there may be calls at once, each with its next event when
    it has an answer.
    """
    done, numbers = 0, iter(range(last))
    limits = httpx2.Limits(max_connections=at_once, max_keepalive_connections=at_once)

    async def caller(client: httpx2.AsyncClient) -> None:
        nonlocal done
        for number in numbers:
            answer = await client.post(
                handler, content=_told(number), headers={"Content-Type": "application/json"}
            )
            assert answer.status_code == 200
            done += 1

    async with (
        httpx2.AsyncClient(limits=limits, timeout=30) as client,
        asyncio.TaskGroup() as tasks,
    ):
        for _ in range(at_once):
            tasks.create_task(caller(client))
        return await stretch(lambda: done, first, last)


def _told(number: int) -> bytes:
    """The body that the inbox sends for the same event."""
    return orjson.dumps(
        {
            "message_id": derived_uuid("bench", str(number)),
            "subject": SUBJECT,
            "event_type": "vibe_created",
            "event_version": 1,
            "occurred_at": "2025-12-28T22:00:00.000000Z",
            "correlation_id": None,
            "causation_id": None,
            "payload": orjson.Fragment(body(number)),
        }
    )
