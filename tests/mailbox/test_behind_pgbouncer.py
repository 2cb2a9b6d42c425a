"""Relay and inbox behind a real PgBouncer, as the page says: `pool_mode = session`."""

import pytest
from nats.aio.client import Client

from router.mailbox.inbox.event import InboxEvent
from router.mailbox.postgres import Database, DatabaseConfig, Driver
from tests.support.broker import Broker
from tests.support.inbox import an_id, an_inbox, effects, is_settled, publish, record
from tests.support.mailbox import a_relay, all_published, an_outbox_stream, fill_outbox
from tests.support.pgbouncer import PROGRAM, a_pgbouncer
from tests.support.waiting import until

pytestmark = pytest.mark.skipif(
    PROGRAM is None, reason="pgbouncer is not on PATH (Debian: apt-get install pgbouncer)"
)


async def test_a_relay_publishes_every_event(broker: Broker, dsn: str) -> None:
    await fill_outbox(dsn, 200)
    async with (
        a_pgbouncer(dsn) as pooled,
        Database(DatabaseConfig(pooled)) as database,
        an_outbox_stream(broker) as stream,
    ):
        async with a_relay(database, stream):
            await all_published(dsn)
        assert sorted(await stream.numbers()) == list(range(1, 201))


async def test_an_inbox_processes_every_event_once(broker: Broker, nc: Client, dsn: str) -> None:
    async def handle(connection: Driver, event: InboxEvent) -> None:
        await record(connection, event)

    async with a_pgbouncer(dsn) as pooled, an_inbox(broker.url, pooled, handle):
        await publish(nc, range(50))
        await until(lambda: is_settled(nc))
    assert sorted(await effects(dsn)) == [an_id(n) for n in range(50)]
