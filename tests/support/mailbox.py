"""Events in an outbox, a relay at work on a real broker, and what both sides hold."""

import asyncio
import contextlib
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from uuid import UUID

import orjson
import psycopg
from msgspec import Struct

from router.core.errors import BrokerUnavailable
from router.delivery.consume.stream_reader import open_reader
from router.delivery.wire.api import JetStream, StoredMessage
from router.delivery.wire.connection import Connection
from router.delivery.wire.first_connection import connect
from router.mailbox.entities import OutboxEvent
from router.mailbox.outbox.add import add, new_id
from router.mailbox.outbox.nats_publisher import open_nats_publisher
from router.mailbox.outbox.publisher import OutboxPublisher
from router.mailbox.outbox.relay_batch import RelayReport
from router.mailbox.postgres import Database
from router.mailbox.settings import MailboxConfig, RelayConfig
from router.mailbox.streams import events_stream
from tests.support.broker import Broker
from tests.support.made_anew import create_streams
from tests.support.postgres import rows
from tests.support.waiting import until

STREAM = "SEA_EVENTS"
IMPATIENT = {"attempts": 3, "backoff_ms": (0,), "poll_most_ms": 20}


def an_event(
    aggregate: str = "o-1", payload: object = None, *, kind: str = "order_paid", **fields: object
) -> OutboxEvent:
    return OutboxEvent(
        new_id(), "order", aggregate, kind, {} if payload is None else payload, **fields
    )  # type: ignore[arg-type]


def config(**relay: object) -> MailboxConfig:
    """A relay that is quick to notice."""
    return MailboxConfig(relay=RelayConfig.model_construct(**{**IMPATIENT, **relay}))  # type: ignore[arg-type]


async def add_events(dsn: str, *events: OutboxEvent) -> list[UUID]:
    """Events committed in one transaction, as a service would."""
    async with await psycopg.AsyncConnection.connect(dsn) as connection:
        for event in events:
            await add(connection, event)
    return [event.id for event in events]


async def add_and_notify(dsn: str, event: OutboxEvent) -> None:
    """One event, and a notice to relays that listen."""
    async with await psycopg.AsyncConnection.connect(dsn) as connection:
        await add(connection, event, wake=True)


async def fill_outbox(dsn: str, count: int, aggregates: int = 100) -> None:
    """Many events by one statement, numbered in their payload, in the order of their numbers."""
    query = """
        INSERT INTO outbox_events (id, aggregate_type, aggregate_id, event_type, payload, occurred_at)
        SELECT gen_random_uuid(), 'order', 'o-' || n %% %s, 'order_paid', jsonb_build_object('n', n),
               now() - interval '1 hour' + n * interval '1 us'
        FROM generate_series((SELECT count(*) FROM outbox_events) + 1, (SELECT count(*) FROM outbox_events) + %s) AS n"""
    await rows(dsn, query, aggregates, count)


class Row(Struct, frozen=True):
    """What a test looks at of a row."""

    is_published: bool
    attempts: int
    error: str | None
    is_parked: bool


async def row(dsn: str, event: UUID) -> Row:
    query = """
        SELECT e.published_at IS NOT NULL, e.publish_attempts, e.publish_error, s.parked_at IS NOT NULL
        FROM outbox_events AS e LEFT JOIN outbox_relay_state AS s ON s.outbox_id = e.id WHERE e.id = %s"""
    (values,) = await rows(dsn, query, event)
    return Row(*values)  # type: ignore[arg-type]


async def count_unpublished(dsn: str) -> int:
    ((count,),) = await rows(dsn, "SELECT count(*) FROM outbox_events WHERE published_at IS NULL")
    assert isinstance(count, int)
    return count


class OutboxStream:
    """A broker with the stream of the context `sea`, and our connection to it. `patient`: for what
    a test asks itself.
    """

    def __init__(self, jetstream: JetStream) -> None:
        self.jetstream = jetstream
        self.patient = JetStream(jetstream.connection, timeout_s=60.0)

    @property
    def connection(self) -> Connection:
        return self.jetstream.connection

    async def make_stream(self, **fields: object) -> None:
        spec = events_stream("sea", **fields)  # type: ignore[arg-type]
        await create_streams(self.patient, spec)

    async def back(self) -> None:
        """The broker was started again: until it answers us."""
        await until(self._answers, what="the broker answers")

    async def _answers(self) -> bool:
        try:
            return self.connection.is_connected and await self.jetstream.stream(STREAM) is not None
        except BrokerUnavailable:
            return False

    async def holds(self, count: int) -> bool:
        """Whether the stream has so many events."""
        return ((await self.patient.stream(STREAM)) or {})["state"]["messages"] >= count  # type: ignore[no-any-return]

    async def events(self) -> list[StoredMessage]:
        """All that the stream holds."""
        async with open_reader(self.patient, STREAM) as reader:
            messages: list[StoredMessage] = []
            while some := await reader.read(1000):
                messages += some
            return messages

    async def ids(self) -> list[str]:
        return [event.headers["Nats-Msg-Id"] for event in await self.events()]

    async def numbers(self) -> list[int]:
        """Of events made by `filled`."""
        return [orjson.loads(event.data)["n"] for event in await self.events()]


@asynccontextmanager
async def an_outbox_stream(broker: Broker, **fields: object) -> AsyncIterator[OutboxStream]:
    connection = await connect({"servers": [broker.url], "reconnect_time_wait": 0.02})
    place = OutboxStream(JetStream(connection, timeout_s=2.0))
    try:
        await place.make_stream(**fields)
        yield place
    finally:
        await connection.close()


async def run_rounds(
    database: Database, place: OutboxStream, *, of: MailboxConfig | None = None, page: int = 1000
) -> RelayReport:
    """Rounds until one finds nothing or the broker is away; the last one that found something, else
    the last.
    """
    relay = OutboxPublisher(of or config(), database, place.patient, page=page)
    last = RelayReport()
    async with open_nats_publisher(
        place.patient, is_atomic=relay.is_atomic, timeout_s=60.0
    ) as publisher:
        while True:
            report = await relay.run_batch(publisher)
            if not report.found:
                return last
            last = report
            if report.broker_error is not None:
                return last


@asynccontextmanager
async def a_relay(
    database: Database,
    place: OutboxStream,
    *,
    page: int = 1000,
    store_timeout_s: float = 5.0,
    **relay: object,
) -> AsyncIterator[OutboxPublisher]:
    """A relay at work until the block ends, and its scrub beside it."""
    publisher = OutboxPublisher(
        config(**relay),
        database,
        place.jetstream,
        page=page,
        store_timeout_s=store_timeout_s,
        retry_s=0.05,
    )
    tasks = [
        asyncio.create_task(publisher.integrity_scan.run()),
        asyncio.create_task(publisher.run()),
    ]
    try:
        yield publisher
    finally:
        for task in tasks:
            task.cancel()
            with contextlib.suppress(asyncio.CancelledError):
                await task


async def all_published(dsn: str, within_s: float = 20.0) -> None:
    async def is_done() -> bool:
        return await count_unpublished(dsn) == 0

    await until(is_done, within_s=within_s, what="every row published")


def order_violations(events: list[StoredMessage]) -> int:
    """How often an event came before an earlier one of its aggregate; numbers by `filled`,
    aggregate = number modulo `aggregates`.
    """
    newest: dict[int, int] = {}
    return sum(_is_late(newest, orjson.loads(event.data)) for event in events)


def _is_late(newest: dict[int, int], payload: Mapping[str, int]) -> bool:
    number = payload["n"]
    aggregate = number % 100
    was, newest[aggregate] = newest.get(aggregate, 0), max(number, newest.get(aggregate, 0))
    return number < was
