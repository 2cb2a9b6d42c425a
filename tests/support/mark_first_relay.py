"""The control of the relay's kill story: a relay that marks a row before it is published.

It loses what it dies on.

The control of the kill table: the ledger must see it.
"""

import asyncio
import signal

from router.config import load
from router.core.crashpoints import crashpoint
from router.delivery.wire.api import JetStream
from router.delivery.wire.first_connection import connect
from router.mailbox.entities import json_text
from router.mailbox.outbox.repository import PostgresOutboxAdapter
from router.mailbox.postgres import Database, DatabaseConfig


async def relay(jetstream: JetStream, database: Database, is_stopping: asyncio.Event) -> None:
    """Until it is told to go: then it publishes what it has marked, so that only the kills lose."""
    while not is_stopping.is_set():
        async with database.transaction() as session:
            outbox = PostgresOutboxAdapter(session, limit=1)
            events = await outbox.find_unpublished()
            for event in events:
                await outbox.mark_published(event.id)
        for event in events:
            crashpoint("outbox_marked")
            await jetstream.publish(
                "sea.event.order_paid.v1", json_text(event.payload), {"Nats-Msg-Id": str(event.id)}
            )
        if not events:
            await asyncio.sleep(0.01)


async def main() -> None:
    settings = load().settings
    assert settings.mailbox.dsn is not None
    is_stopping = asyncio.Event()
    asyncio.get_running_loop().add_signal_handler(signal.SIGTERM, is_stopping.set)
    connection = await connect({"servers": list(settings.nats.url)})
    async with Database(DatabaseConfig(settings.mailbox.dsn.get_secret_value())) as database:
        print('{"event": "outbox.ready"}', flush=True)
        await relay(JetStream(connection), database, is_stopping)


if __name__ == "__main__":
    asyncio.run(main())
