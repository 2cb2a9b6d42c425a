"""The connection that a handler of the inbox works with: it may wait, and its queries are planned
as its author expects.
"""

import asyncio

import psycopg
from nats.aio.client import Client

from router.mailbox.inbox.event import InboxEvent
from router.mailbox.postgres import Database, DatabaseConfig, Driver
from tests.support.broker import Broker
from tests.support.inbox import an_id, an_inbox, effects, is_settled, publish, record, row_of
from tests.support.poolers import a_pooler
from tests.support.postgres import rows
from tests.support.waiting import until

SETTINGS = """SELECT current_setting('enable_seqscan'), current_setting('enable_bitmapscan'), current_setting('jit'),
              current_setting('idle_in_transaction_session_timeout')::interval > interval '30 s'"""
IDLE = (
    "SELECT count(*) FROM pg_stat_activity WHERE pid = %s AND now() - state_change < interval "
    "'0.6 s'"
)


async def test_a_handler_may_wait_as_long_as_its_timeout_says(
    broker: Broker, nc: Client, dsn: str
) -> None:
    """It waited for something else, and the server had ended its transaction: again and again,
    until it was a dead letter.
    """
    calls: list[str] = []

    async def waiting(connection: Driver, event: InboxEvent) -> None:
        calls.append(event.message_id)
        pid = connection.info.backend_pid
        await until(
            lambda: _has_idled(dsn, pid),
            what="the session has idled three times as long as a relay's may",
        )
        await record(connection, event)

    async with an_inbox(
        broker.url, dsn, waiting, idle_in_transaction=0.2, handler_timeout=60.0, ack_wait=60.0
    ):
        await publish(nc, [1])
        await until(lambda: is_settled(nc))
    assert (calls, await effects(dsn), await row_of(dsn, 1)) == (
        [an_id(1)],
        [an_id(1)],
        (True, 1, None),
    )


async def test_a_handlers_queries_are_planned_as_the_server_is_set_up(
    broker: Broker, nc: Client, dsn: str
) -> None:
    seen: list[object] = []

    async def looking(connection: Driver, event: InboxEvent) -> None:
        seen.append(await (await connection.execute(SETTINGS)).fetchone())

    async with an_inbox(broker.url, dsn, looking, handler_timeout=30.0):
        await publish(nc, range(5))
        await until(lambda: is_settled(nc))
    assert set(seen) == set(
        await rows(dsn, SETTINGS.replace("::interval > interval '30 s'", " <> ''"))
    )


async def test_a_pooler_that_takes_no_startup_options_is_no_obstacle(dsn: str) -> None:
    """PgBouncer refuses a connection that asks for any."""
    async with (
        a_pooler(dsn) as pooled,
        Database(DatabaseConfig(pooled, schema="pg_temp", timeout=2.0)) as database,
        database.transaction() as session,
    ):
        assert await session.fetch(
            "SELECT current_setting('search_path'), current_setting('jit')", make=_pair
        ) == [("pg_temp", "off")]


async def test_what_a_pooler_refuses_is_seen_by_a_client_that_asks(dsn: str) -> None:
    """The pooler of these tests refuses as PgBouncer does."""
    async with a_pooler(dsn) as pooled:
        refused = await asyncio.gather(
            psycopg.AsyncConnection.connect(pooled, options="-c jit=off"), return_exceptions=True
        )
    assert "unsupported startup parameter: options" in str(refused[0])


async def _has_idled(dsn: str, pid: int) -> bool:
    return await rows(dsn, IDLE, pid) == [(0,)]


def _pair(first: str, second: str) -> tuple[str, str]:
    return first, second
