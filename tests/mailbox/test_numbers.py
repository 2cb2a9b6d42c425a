"""Payloads of the inbox and the outbox arrive with the numbers that were sent."""

import asyncio
import json
import uuid
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import psycopg
import pytest
from msgspec import Raw
from nats.aio.client import Client
from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route

from router.core.outcome import Fault
from router.delivery.wire.api import StoredMessage
from router.mailbox.entities import OutboxEvent
from router.mailbox.inbox.dead_letters import InboxDeadLetters
from router.mailbox.inbox.event import InboxEvent, read_event
from router.mailbox.inbox.handling import HandlerResult
from router.mailbox.outbox.add import add
from router.mailbox.policies import InvalidEntity
from router.mailbox.postgres import Driver
from router.operate.dead_letters.parse import parse
from tests.support.any_json import SAMPLES, iterate_json, read_exactly
from tests.support.broker import Broker
from tests.support.inbox import (
    SUBJECT,
    a_message,
    a_service,
    an_id,
    an_inbox,
    is_settled,
    read_dead_letters,
)
from tests.support.waiting import until

ROUNDS = 40


def an_event_of(payload: bytes) -> InboxEvent:
    event = read_event(a_message(payload))
    assert isinstance(event, InboxEvent), (payload, event)
    return event


def test_a_function_gets_whole_numbers_exactly_and_the_bytes_as_they_came() -> None:
    event = an_event_of(b'{"n":18446744073709551616,"m":[123456789012345678901234567890]}')
    assert event.payload == {"n": 2**64, "m": [123456789012345678901234567890]}
    assert type(event.payload["n"]) is int
    for payload in iterate_json(500, 1):
        event = an_event_of(payload)
        assert event.body == payload
        assert event.payload == json.loads(payload), payload


@pytest.mark.parametrize(
    "payload",
    [
        b"NaN",
        b"[Infinity]",
        b"01",
        b"1.",
        b'"\\ud800"',
        b'["\\ud800",1e999]',
        b'"\xff"',
        b"[1e999,]",
        b"1e",
    ],
)
def test_what_is_no_json_is_refused_beside_a_long_number_too(payload: bytes) -> None:
    for one in (payload, b"[18446744073709551616,%b]" % payload):
        assert isinstance(read_event(a_message(one)), Fault), one


def test_an_inbox_dead_letter_holds_the_bytes_that_came() -> None:
    letters = InboxDeadLetters(context="sea", durable="d", node_id="n", max_bytes=1 << 20)
    for payload in iterate_json(200, 2):
        effect = letters.write(
            a_message(payload), "validation_failed", Fault("X", "no", None, None)
        )
        assert parse(StoredMessage(effect.subject, 1, effect.data, {}, "")).payload == payload


@asynccontextmanager
async def recording_service() -> AsyncIterator[tuple[str, dict[str, Any]]]:
    seen: dict[str, Any] = {}

    async def handle(request: Request) -> Response:
        body = read_exactly(await request.body())
        seen[body["message_id"]] = body["payload"]
        return Response(status_code=200)

    async with a_service(Starlette(routes=[Route("/handle", handle, methods=["POST"])])) as url:
        yield url, seen


async def publish_each(nc: Client, payloads: list[bytes]) -> None:
    js = nc.jetstream()
    await asyncio.gather(
        *(
            js.publish(SUBJECT, one, headers={"Nats-Msg-Id": an_id(number)})
            for number, one in enumerate(payloads)
        )
    )


async def test_a_function_gets_the_values_and_the_bytes_that_were_sent(
    broker: Broker, nc: Client, dsn: str
) -> None:
    sent = list(iterate_json(ROUNDS, 3))
    seen: dict[str, Any] = {}

    async def handle(_: Driver, event: InboxEvent) -> HandlerResult | None:
        seen[event.message_id] = (event.payload, event.body)
        return None

    async with an_inbox(broker.url, dsn, handle):
        await publish_each(nc, sent)
        await until(lambda: is_settled(nc))
    assert await read_dead_letters(nc) == []
    assert seen == {
        an_id(number): (json.loads(payload), payload) for number, payload in enumerate(sent)
    }


async def test_a_service_gets_the_values_that_were_sent(
    broker: Broker, nc: Client, dsn: str
) -> None:
    sent = list(iterate_json(ROUNDS, 4))
    async with recording_service() as (url, seen), an_inbox(broker.url, dsn, url):
        await publish_each(nc, sent)
        await until(lambda: is_settled(nc))
    assert await read_dead_letters(nc) == []
    assert seen == {an_id(number): read_exactly(payload) for number, payload in enumerate(sent)}


async def test_the_outbox_keeps_values_of_any_length(dsn: str, database: Any) -> None:
    """JSONB keeps each digit and the scale of a decimal; it does not keep bytes."""
    from router.mailbox.outbox.repository import PostgresOutboxAdapter

    sent = [
        one
        for one in iterate_json(200, 5)
        if b"\\u0000" not in one
        and one not in (SAMPLES["beyond a double"], SAMPLES["below a double"])
    ]
    ids = [uuid.UUID(int=number + 1) for number in range(len(sent))]
    async with await psycopg.AsyncConnection.connect(dsn) as connection:
        for event_id, payload in zip(ids, sent, strict=True):
            await add(connection, OutboxEvent(event_id, "a", str(event_id), "made", Raw(payload)))
    async with database.transaction() as session:
        outbox = PostgresOutboxAdapter(session, limit=1000)
        await outbox.claim_partitions()
        found = {row.id: row.payload for row in await outbox.find_unpublished()}
    for event_id, payload in zip(ids, sent, strict=True):
        kept = found[event_id]
        assert isinstance(kept, Raw)
        assert read_exactly(bytes(kept)) == read_exactly(payload), payload


async def test_the_outbox_refuses_a_number_that_the_column_would_write_out() -> None:
    for payload in (Raw(b"1e999"), Raw(b"[-1e999]")):
        with pytest.raises(InvalidEntity):
            add(Unused(), OutboxEvent(uuid.UUID(int=1), "a", "b", "made", payload))


class Unused:
    def execute(self, query: str, params: object) -> object:
        raise AssertionError("nothing is written")
