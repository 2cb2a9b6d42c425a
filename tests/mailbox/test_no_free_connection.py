"""A database that has no connection left for handlers, though the inbox itself has one: the inbox
waits, and no event pays.
"""

from nats.aio.client import Client

from tests.support.broker import Broker
from tests.support.inbox import (
    EFFECTS,
    an_id,
    an_inbox,
    effects,
    is_settled,
    publish,
    read_dead_letters,
    record,
)
from tests.support.postgres import rows
from tests.support.waiting import until

ROLE = """
DO $$ BEGIN CREATE ROLE crowded LOGIN CONNECTION LIMIT 1; EXCEPTION WHEN duplicate_object THEN ALTER ROLE crowded CONNECTION LIMIT 1; END $$
"""


async def test_an_event_waits_for_a_connection_and_spends_no_delivery(
    broker: Broker, nc: Client, dsn: str
) -> None:
    """On its only delivery; a connection that the inbox kept for itself was taken for a sign that
    the database was not the cause.
    """
    await rows(dsn, EFFECTS)
    await rows(dsn, ROLE)
    await rows(dsn, "GRANT ALL ON SCHEMA public TO crowded")
    await rows(dsn, "GRANT ALL ON ALL TABLES IN SCHEMA public TO crowded")
    crowded = dsn.replace("postgres@", "crowded@")
    async with an_inbox(
        broker.url, crowded, record, max_deliver=1, database_timeout=3.0, owner=dsn
    ) as running:
        await publish(nc, [1])
        await until(lambda: running.inbox.consumer.health.paused_for, within_s=30)
        assert await read_dead_letters(nc) == []
        await rows(dsn, "ALTER ROLE crowded CONNECTION LIMIT -1")
        await until(lambda: is_settled(nc), within_s=30)
    assert (await effects(dsn), await read_dead_letters(nc)) == ([an_id(1)], [])
