"""The outbox emptied: by the relay, and one row at a time, as it is usually written, as the
yardstick.

The usual shape is stock psycopg and nats-py: the oldest row is locked, published, its PubAck
awaited, marked, committed.
"""

from __future__ import annotations

import asyncio
import contextlib

import nats
import psycopg

from bench.broker import jetstream_on
from bench.child import Ready
from bench.question import Measured
from bench.stretch import stretch
from router.mailbox.outbox.publisher import OutboxPublisher
from router.mailbox.postgres import Database, DatabaseConfig
from router.mailbox.settings import MailboxConfig

NEXT = """
    SELECT id, event_type, payload::text FROM outbox_events WHERE published_at IS NULL
    ORDER BY occurred_at, id LIMIT 1 FOR UPDATE SKIP LOCKED"""
MARK = (
    "UPDATE outbox_events SET published_at = now(), publish_attempts = publish_attempts + 1 "
    "WHERE id = %s"
)


async def relay(ready: Ready, *, url: str, dsn: str, first: int, last: int) -> Measured:
    """From row `first`, when its start is over, to the last that is marked."""
    async with jetstream_on(url) as jetstream, Database(DatabaseConfig(dsn)) as database:
        publisher = OutboxPublisher(MailboxConfig(), database, jetstream)
        task = asyncio.create_task(publisher.run())
        try:
            return await stretch(lambda: publisher.totals.published, first, last)
        finally:
            task.cancel()
            with contextlib.suppress(asyncio.CancelledError):
                await task


async def one_by_one(ready: Ready, *, url: str, dsn: str, first: int, last: int) -> Measured:
    done = 0

    async def work() -> None:
        nonlocal done
        client = await nats.connect(url)
        jetstream = client.jetstream()
        async with await psycopg.AsyncConnection.connect(
            dsn, options="-c enable_seqscan=off -c enable_bitmapscan=off"
        ) as connection:
            while done < last:
                async with connection.transaction():
                    row = await (await connection.execute(NEXT)).fetchone()
                    assert row is not None
                    headers = {"Nats-Msg-Id": str(row[0])}
                    await jetstream.publish(
                        f"sea.event.{row[1]}.v1", row[2].encode(), headers=headers
                    )
                    await connection.execute(MARK, (row[0],))
                done += 1
        await client.close()

    task = asyncio.create_task(work())
    figures = await stretch(lambda: done, first, last)
    await task
    return figures
