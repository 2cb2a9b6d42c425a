"""What one aggregate's lock serialises is published in that order, whichever transaction began
first.

Rule: docs/how-to/use-the-mailbox.md#order.
"""

import asyncio
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack, asynccontextmanager
from datetime import UTC, datetime, timedelta

import psycopg
import pytest

from router import outbox
from router.mailbox.outbox.repository import PostgresOutboxAdapter, requeue
from router.mailbox.postgres import Database, Driver
from tests.support.mailbox import OutboxStream, add_events, an_event, run_rounds
from tests.support.postgres import rows
from tests.support.waiting import until

pytestmark = pytest.mark.both_majors

PLAIN_SQL = """
    INSERT INTO outbox_events (id, aggregate_type, aggregate_id, event_type, payload)
    VALUES (gen_random_uuid(), 'order', 'o-1', 'order_paid', jsonb_build_object('n', %s::int))"""


@asynccontextmanager
async def begun_transactions(dsn: str, count: int) -> AsyncIterator[list[Driver]]:
    """Transactions that began in this order, beside a table of orders."""
    await rows(dsn, "CREATE TABLE orders (id TEXT PRIMARY KEY)")
    await rows(dsn, "INSERT INTO orders VALUES ('o-1')")
    async with AsyncExitStack() as stack:
        begun = [
            await stack.enter_async_context(await psycopg.AsyncConnection.connect(dsn))
            for _ in range(count)
        ]
        for connection in begun:
            await connection.execute("SELECT now()")
        yield begun


async def lock(connection: Driver) -> None:
    await connection.execute("SELECT FROM orders WHERE id = 'o-1' FOR UPDATE")


async def read_ids(adapter: PostgresOutboxAdapter) -> list[object]:
    return [event.id for event in await adapter.find_unpublished()]


async def test_of_two_transactions_that_overlap_the_first_in_the_lock_is_published_first(
    dsn: str, database: Database, place: OutboxStream
) -> None:
    """T27 in small: `occurred_at` is the start of a transaction, and that one began last."""
    async with begun_transactions(dsn, 2) as (late, early):
        for connection, number in ((early, 1), (late, 2)):
            await lock(connection)
            await outbox.add(connection, an_event("o-1", {"n": number}))
            await connection.commit()
    await run_rounds(database, place)
    assert await place.numbers() == [1, 2]


async def test_a_time_that_the_event_names_orders_nothing(
    dsn: str, database: Database, place: OutboxStream
) -> None:
    hour_ago = datetime.now(UTC) - timedelta(hours=1)
    await add_events(
        dsn, an_event("o-1", {"n": 1}), an_event("o-1", {"n": 2}, occurred_at=hour_ago)
    )
    await run_rounds(database, place)
    assert await place.numbers() == [1, 2]


async def test_events_that_plain_sql_adds_to_one_transaction_are_published_as_added(
    dsn: str, database: Database, place: OutboxStream
) -> None:
    """Their ids are random, and their time is one."""
    async with await psycopg.AsyncConnection.connect(dsn) as connection:
        for number in range(10):
            await connection.execute(PLAIN_SQL, (number,))
    await run_rounds(database, place)
    assert await place.numbers() == list(range(10))


TRIGGER = """
    CREATE FUNCTION tell() RETURNS TRIGGER LANGUAGE plpgsql AS $$
    BEGIN
      INSERT INTO outbox_events (id, aggregate_type, aggregate_id, event_type, payload)
      VALUES (gen_random_uuid(), 'order', NEW.id, 'order_paid', jsonb_build_object('n', NEW.amount));
      RETURN NULL;
    END $$;
    CREATE TRIGGER tell AFTER UPDATE ON orders FOR EACH ROW EXECUTE FUNCTION tell()"""


async def test_a_trigger_behind_the_change_adds_in_the_order_of_the_lock(
    dsn: str, database: Database, place: OutboxStream
) -> None:
    async with begun_transactions(dsn, 2) as (late, early):
        await rows(dsn, "ALTER TABLE orders ADD COLUMN amount INT")
        await rows(dsn, TRIGGER)
        for connection, number in ((early, 1), (late, 2)):
            await connection.execute("UPDATE orders SET amount = %s", (number,))
            await connection.commit()
    await run_rounds(database, place)
    assert await place.numbers() == [1, 2]


async def test_an_event_does_not_overtake_one_that_was_committed_behind_the_page_that_is_read(
    dsn: str, database: Database
) -> None:
    """A batch reads page by page: the earlier event lies behind the first page when it is
    committed, the later one before the second.
    """
    first, other, second = an_event("o-1"), an_event("o-2"), an_event("o-1")
    async with begun_transactions(dsn, 2) as (open_writer, next_writer):
        await outbox.add(open_writer, first)
        await add_events(dsn, other)
        async with database.transaction() as session:
            adapter = PostgresOutboxAdapter(session, limit=1)
            assert await read_ids(adapter) == [other.id]
            await open_writer.commit()
            await outbox.add(next_writer, second)
            await next_writer.commit()
            assert await read_ids(adapter) == []
    async with database.transaction() as session:
        adapter = PostgresOutboxAdapter(session)
        assert await read_ids(adapter) == [first.id, other.id, second.id]


async def test_events_of_one_transaction_that_is_committed_between_two_pages_are_read_together(
    dsn: str, database: Database
) -> None:
    """Some lie behind the first page, some before the second, and the batch ends behind them: it
    takes all of them, or none.
    """
    first, other, second, last = an_event("o-1"), an_event("o-2"), an_event("o-1"), an_event("o-3")
    async with begun_transactions(dsn, 1) as (open_writer,):
        await outbox.add(open_writer, first)
        await add_events(dsn, other)
        await outbox.add(open_writer, second)
        await add_events(dsn, last)
        async with database.transaction() as session:
            adapter = PostgresOutboxAdapter(session, limit=1)
            assert await read_ids(adapter) == [other.id]
            await open_writer.commit()
            assert [await read_ids(adapter), await read_ids(adapter)] == [[last.id], []]
    async with database.transaction() as session:
        assert await read_ids(PostgresOutboxAdapter(session)) == [
            first.id,
            other.id,
            second.id,
            last.id,
        ]


async def test_what_is_requeued_while_a_relay_reads_is_not_overtaken(
    dsn: str, database: Database
) -> None:
    """The parked event lies behind the page when it is put back, the next one of its aggregate
    before it: putting it back waits.
    """
    parked, other, behind = an_event("o-1"), an_event("o-2"), an_event("o-1")
    await add_events(dsn, parked, other, behind)
    await park(database, parked)
    async with database.transaction() as session:
        adapter = PostgresOutboxAdapter(session, limit=1)
        await adapter.claim_partitions()
        assert await read_ids(adapter) == [other.id]
        putting_back = asyncio.create_task(requeue_all(database))
        await until(lambda: putting_back.done() or is_waiting_for_partition(dsn))
        assert await read_ids(adapter) == []
    assert await putting_back == 1
    async with database.transaction() as session:
        assert await read_ids(PostgresOutboxAdapter(session)) == [parked.id, other.id, behind.id]


async def park(database: Database, event: outbox.OutboxEvent) -> None:
    async with database.transaction() as session:
        await PostgresOutboxAdapter(session).increment_attempts(
            event.id, "refused", is_hopeless=True
        )


async def requeue_all(database: Database) -> int:
    async with database.transaction() as session:
        return await requeue(session)


async def is_waiting_for_partition(dsn: str) -> bool:
    return bool(
        await rows(dsn, "SELECT 1 FROM pg_locks WHERE locktype = 'advisory' AND NOT granted")
    )


async def test_an_event_that_is_not_due_holds_back_its_own_aggregate_alone(
    dsn: str, database: Database, place: OutboxStream
) -> None:
    """A transaction that began after the relay's looks as an event of a fast clock does: its time
    has not come.
    """
    soon = datetime.now(UTC) + timedelta(seconds=30)
    before, early, behind, other = (an_event(name) for name in ("o-1", "o-1", "o-1", "o-2"))
    await add_events(dsn, before, early, behind, other)
    await rows(dsn, "UPDATE outbox_events SET occurred_at = %s WHERE id = %s", soon, early.id)
    await run_rounds(database, place)
    assert await place.ids() == [str(before.id), str(other.id)]
    await rows(dsn, "UPDATE outbox_events SET occurred_at = now() WHERE id = %s", early.id)
    await run_rounds(database, place)
    assert await place.ids() == [str(one.id) for one in (before, other, early, behind)]
