"""Every field that SDS-047 does not mark optional is in every event, every request to a handler,
every dead letter and every backlog.
"""

import asyncio
import json
import uuid
from collections.abc import Mapping
from datetime import UTC, datetime

import pytest
from nats.aio.client import Client
from prometheus_client.parser import text_string_to_metric_families
from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route

from router.mailbox.postgres import Database
from tests.support.broker import Broker
from tests.support.cli import call_command_async
from tests.support.inbox import a_service, an_id, an_inbox, is_settled, publish, read_dead_letters
from tests.support.mailbox import add_events, an_event, an_outbox_stream, fill_outbox, run_rounds
from tests.support.postgres import rows
from tests.support.relay import Relay, names_for
from tests.support.spec_tables import find_faults_in
from tests.support.stories import has_metric, read_page
from tests.support.waiting import until

SUBJECT = "vibespro.event.vibe_created.v1"
LINKED = {
    "Correlation-Id": an_id(91),
    "Causation-Id": an_id(92),
    "Occurred-At": "2025-12-28T22:00:00Z",
}
SERIES: tuple[tuple[bytes, Mapping[str, str]], ...] = (
    (b"{}", {"Nats-Msg-Id": an_id(1)}),
    (
        b'{"n": 1}',
        {"Nats-Msg-Id": an_id(2), **LINKED, "Event-Type": "vibe_created", "Event-Version": "1"},
    ),
    (b"[1, null]", {"Nats-Msg-Id": "evt_01HQ"}),
    (b"null", {}),
    (
        b'"text"',
        {
            "Nats-Msg-Id": an_id(3),
            "Correlation-Id": "none",
            "Occurred-At": "yesterday",
            "Event-Version": "x",
        },
    ),
)


async def test_every_event_of_the_outbox_has_the_headers_of_its_table(
    dsn: str, database: Database, broker: Broker
) -> None:
    """SD-2, SD-6, SD-14, SD-19: EVT-047-001 is a metric, and its other fields stand in the row and
    in the stream.
    """
    links = {"correlation_id": uuid.uuid4(), "causation_id": uuid.uuid4()}
    events = [
        an_event(),
        an_event(payload=[1]),
        an_event(event_version=7),
        an_event(occurred_at=datetime.now(UTC)),
        an_event(**links),
    ]
    async with an_outbox_stream(broker) as place:
        await add_events(dsn, *events)
        await run_rounds(database, place)
        stored = await place.events()
    assert (
        find_faults_in("outbox_headers", [one.headers for one in stored], least=len(events)) == []
    )
    assert [one.headers["Nats-Msg-Id"] for one in stored] == [str(event.id) for event in events]
    assert all(one.subject.startswith("sea.event.order_paid.v") for one in stored)


@pytest.mark.slow  # a process
async def test_every_event_that_is_published_is_counted_under_its_type(
    dsn: str, broker: Broker
) -> None:
    """SD-19: EVT-047-001, of a real relay's page."""
    async with an_outbox_stream(broker, max_bytes=-1):
        relay = Relay(names_for(broker.url, dsn), None)
        try:
            await asyncio.to_thread(relay.start)
            await add_events(
                dsn, an_event(), an_event(kind="order_sent"), an_event(kind="order_sent")
            )
            await until(lambda: has_metric(relay.ready["http"], "router_outbox_published_total", 3))
            _, page = await read_page(relay.ready["http"], "/metrics")
        finally:
            await asyncio.to_thread(relay.terminate)
            relay.remove()
    families = text_string_to_metric_families(page)
    told = [
        sample
        for family in families
        for sample in family.samples
        if sample.name == "router_outbox_published_total"
    ]
    assert (
        find_faults_in("outbox_event_published", [sample.labels for sample in told], least=2) == []
    )
    assert {sample.labels["event_type"]: sample.value for sample in told} == {
        "order_paid": 1,
        "order_sent": 2,
    }


async def test_every_request_to_a_handler_has_the_fields_of_its_table(
    broker: Broker, nc: Client, dsn: str
) -> None:
    """SD-32."""
    told: list[bytes] = []

    async def hear(request: Request) -> Response:
        told.append(await request.body())
        return Response()

    async with (
        a_service(Starlette(routes=[Route("/handle", hear, methods=["POST"])])) as url,
        an_inbox(broker.url, dsn, url),
    ):
        for data, headers in SERIES:
            await nc.jetstream().publish(SUBJECT, data, headers=dict(headers) or None)
        await until(lambda: len(told) >= len(SERIES))
    requests = [json.loads(one) for one in told]
    assert find_faults_in("handler_request", requests, least=len(SERIES)) == []
    whole = {
        "message_id",
        "subject",
        "event_type",
        "event_version",
        "occurred_at",
        "correlation_id",
        "causation_id",
        "payload",
    }
    assert all(set(one) == whole for one in requests), (
        "both links are there, null where they are not known"
    )


async def test_every_dead_letter_of_an_inbox_has_the_fields_of_both_tables(
    broker: Broker, nc: Client, dsn: str
) -> None:
    """SD-16, SD-20."""
    async with a_service(_refuse_all()) as url, an_inbox(broker.url, dsn, url):
        await publish(nc, [1, 2], {"n": 1})
        await nc.jetstream().publish(SUBJECT, b"no json", headers={"Nats-Msg-Id": "evt_01HQ"})
        await nc.jetstream().publish(SUBJECT, b"\xff")
        await until(lambda: is_settled(nc))
        await until(lambda: _has_letters(nc, 4))
    letters = await read_dead_letters(nc)
    assert find_faults_in("message_dead_lettered", letters, least=4) == []
    assert find_faults_in("dead_letter", letters, least=4) == []
    assert find_faults_in("dead_letter_legacy", letters, least=4) == []


async def test_every_backlog_has_the_fields_of_its_table(dsn: str) -> None:
    """SD-17, SD-18: empty, and with something in it."""
    told = [await _ask_backlog(dsn, name) for name in ("outbox", "inbox")]
    await fill_outbox(dsn, 2)
    await rows(
        dsn, "INSERT INTO inbox_messages (message_id, subject) VALUES (gen_random_uuid(), 's')"
    )
    told += [await _ask_backlog(dsn, name) for name in ("outbox", "inbox")]
    assert find_faults_in("outbox_backlog", told, least=4) == []
    assert [(one["count"], one["oldest_at"] is None) for one in told] == [
        (0, True),
        (0, True),
        (2, False),
        (1, False),
    ]


async def _ask_backlog(dsn: str, name: str) -> Mapping[str, object]:
    return (
        await call_command_async(name, "backlog", "--json", environ={"ROUTER_MAILBOX__DSN": dsn})
    ).json


def _refuse_all() -> Starlette:
    async def refuse(_: Request) -> Response:
        return Response(status_code=422)

    return Starlette(routes=[Route("/handle", refuse, methods=["POST"])])


async def _has_letters(nc: Client, count: int) -> bool:
    return len(await read_dead_letters(nc)) >= count
