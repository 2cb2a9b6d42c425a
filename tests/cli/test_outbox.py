"""`router mailbox` and `router outbox`, as an operator types them."""

import asyncio
from collections.abc import AsyncIterator
from uuid import uuid4

import pytest

from router.mailbox.outbox.repository import PostgresOutboxAdapter
from router.mailbox.postgres import Database, DatabaseConfig
from tests.support.broker import Broker
from tests.support.cli import CommandResult, call_command_async, router
from tests.support.mailbox import (
    OutboxStream,
    add_events,
    all_published,
    an_event,
    an_outbox_stream,
    fill_outbox,
    run_rounds,
)
from tests.support.postgres import Postgres, rows
from tests.support.relay import Relay, names_for
from tests.support.stories import has_metric, read_page
from tests.support.waiting import until


@pytest.fixture
async def dsn(postgres: Postgres) -> str:
    return await postgres.database()


@pytest.fixture
def broker(own_broker: Broker) -> Broker:
    return own_broker


@pytest.fixture
async def place(broker: Broker) -> AsyncIterator[OutboxStream]:
    async with an_outbox_stream(broker) as place:
        yield place


async def asked(dsn: str, *arguments: str) -> CommandResult:
    return await call_command_async(*arguments, environ={"ROUTER_MAILBOX__DSN": dsn})


async def test_tables_are_checked_made_and_checked(postgres: Postgres) -> None:
    await rows(postgres.dsn(), "CREATE DATABASE fresh")
    fresh = postgres.dsn("fresh")
    assert (await asked(fresh, "mailbox", "check")).status == 1
    assert (await asked(fresh, "mailbox", "migrate", "--json")).json["applied"][0] == "0001_tables"
    assert "nothing to apply" in (await asked(fresh, "mailbox", "migrate")).out
    assert (await asked(fresh, "mailbox", "check")).status == 0


async def test_the_backlog_is_told_by_context(dsn: str) -> None:
    """SD-17."""
    await fill_outbox(dsn, 3)
    told = (await asked(dsn, "outbox", "backlog", "--json")).json
    assert (told["context"], told["count"]) == ("sea", 3)
    assert told["oldest_at"]


async def test_parked_events_are_listed_and_requeued(dsn: str, place: OutboxStream) -> None:
    poison, _ = await add_events(dsn, an_event("o-1"), an_event("o-1"))
    await rows(dsn, "UPDATE outbox_events SET event_type = 'order paid' WHERE id = %s", poison)
    async with Database(DatabaseConfig(dsn)) as database:
        await run_rounds(database, place)
    listed = await asked(dsn, "outbox", "parked", "--json")
    assert (listed.status, listed.json["id"], listed.json["behind"]) == (1, str(poison), 1)
    assert "POL-047-001" in (await asked(dsn, "outbox", "parked")).out
    assert (await asked(dsn, "outbox", "requeue", str(poison), "--json")).json == {"requeued": 1}
    assert (await asked(dsn, "outbox", "parked")).status == 0
    assert (await asked(dsn, "outbox", "requeue", "--all")).status == 1


async def publish_one(broker: Broker, dsn: str, event: object) -> CommandResult:
    environ = {"ROUTER_MAILBOX__DSN": dsn, "ROUTER_NATS__URL": broker.url}
    return await call_command_async("outbox", "publish", str(event), "--json", environ=environ)


async def test_one_event_is_published_by_its_id_and_keeps_its_place(
    dsn: str, broker: Broker, place: OutboxStream
) -> None:
    """CMD-050: `published_at` is set, the attempt is counted; again, nothing happens."""
    first, second, other = await add_events(dsn, an_event("o-1"), an_event("o-1"), an_event("o-2"))
    early = await publish_one(broker, dsn, second)
    assert (early.status, "earlier event" in early.json["cause"]) == (1, True)
    for event in (other, first, second):
        done = await publish_one(broker, dsn, event)
        assert (done.status, done.json["cause"]) == (0, None), done.err
    again = await publish_one(broker, dsn, first)
    assert (again.status, again.json["cause"]) == (0, "it is published already")
    assert await place.ids() == [str(other), str(first), str(second)]
    marked = await rows(
        dsn, "SELECT published_at IS NOT NULL, publish_attempts, publish_error FROM outbox_events"
    )
    assert marked == [(True, 1, None)] * 3


async def test_one_event_that_is_not_there_or_is_a_relay_s_or_cannot_be_sent_is_told(
    dsn: str, broker: Broker, place: OutboxStream
) -> None:
    event, poison = await add_events(dsn, an_event("o-1"), an_event("o-2"))
    await rows(dsn, "UPDATE outbox_events SET event_type = 'order paid' WHERE id = %s", poison)
    assert (await publish_one(broker, dsn, uuid4())).json["cause"] == "there is no such event"
    refused = await publish_one(broker, dsn, poison)
    assert (refused.status, "POL-047-001" in refused.json["cause"]) == (1, True)
    async with Database(DatabaseConfig(dsn)) as database, database.transaction() as session:
        assert await PostgresOutboxAdapter(session).claim_partitions() == 8
        assert "a relay" in (await publish_one(broker, dsn, event)).json["cause"]
    assert (await publish_one(broker, dsn, event)).status == 0


async def test_requeue_wants_to_know_what() -> None:
    assert (await call_command_async("outbox", "requeue")).status == 2


async def test_a_command_without_a_database_says_which_setting_is_missing() -> None:
    ended = await call_command_async("outbox", "backlog")
    assert (ended.status, "mailbox.dsn" in ended.err) == (2, True)


async def test_a_database_that_is_away_is_one_line_without_its_password() -> None:
    ended = await asked(
        "postgresql://me:geheim@127.0.0.1:1/none?connect_timeout=1", "outbox", "backlog"
    )
    # 1 says that there are parked events, or migrations to apply
    assert (ended.status, len(ended.err.splitlines())) == (3, 1)
    assert "geheim" not in ended.err


@pytest.mark.parametrize("look", ["outbox backlog", "outbox parked", "inbox backlog"])
async def test_a_look_at_tables_that_are_not_there_says_what_to_run(
    postgres: Postgres, look: str
) -> None:
    await rows(postgres.dsn(), f"CREATE DATABASE {(bare := look.replace(' ', '_'))}")
    told = await asked(postgres.dsn(bare), *look.split())
    assert (told.status, told.out) == (2, "")
    assert "run `router mailbox migrate`" in told.err


async def test_a_relay_refuses_tables_that_are_not_there(
    postgres: Postgres, broker: Broker
) -> None:
    await rows(postgres.dsn(), "CREATE DATABASE bare")
    names = {"ROUTER_MAILBOX__DSN": postgres.dsn("bare")}
    # it listens for signals
    ended = await asyncio.to_thread(
        router, "outbox", "relay", "--nats-url", broker.url, environ=names
    )
    assert (ended.status, "router mailbox migrate" in ended.err) == (2, True)


@pytest.mark.slow  # a process
async def test_a_relay_publishes_shows_its_gauges_and_ends_with_0(
    dsn: str, broker: Broker, place: OutboxStream
) -> None:
    """SD-17, SD-19: the event of publishing is a figure."""
    # as the stream has it
    relay = Relay({**names_for(broker.url, dsn), "mailbox.events.max_bytes": 10 * 1024**3}, None)
    try:
        await asyncio.to_thread(relay.start)
        assert (relay.ready["context"], relay.ready["stream"]) == ("sea", "SEA_EVENTS")
        await fill_outbox(dsn, 30)
        await all_published(dsn)
        http = relay.ready["http"]
        # what the database has marked is counted a moment later
        await until(lambda: has_metric(http, "router_outbox_published_total", 30))
        status, text = await read_page(relay.ready["http"], "/metrics")
        assert (status, (await read_page(relay.ready["http"], "/readyz"))[0]) == (200, 200)
        assert 'router_outbox_published_total{event_type="order_paid"} 30.0' in text
        assert 'router_outbox_backlog{context="sea"}' in text
        assert await asyncio.to_thread(relay.terminate) == 0
    finally:
        relay.remove()
    assert len(await place.events()) == 30
