import asyncio
from collections.abc import Awaitable, Callable
from datetime import UTC, datetime, timedelta
from time import perf_counter
from typing import LiteralString

import psycopg
import pytest

from router.mailbox.backlog import INBOX, OUTBOX, get_inbox_backlog, get_outbox_backlog
from router.mailbox.entities import Backlog
from router.mailbox.postgres import Database, DatabaseConfig, Session
from tests.support.mailbox import count_unpublished, fill_outbox
from tests.support.postgres import Postgres, rows
from tests.support.result_pages import write_page
from tests.support.waiting import until

pytestmark = pytest.mark.both_majors

PUBLISHED = 10_000_000
WAITING = 10_000
LOOKS = 1000
QUIET, WRITTEN = "QRY-050", "QRY-050, its rows all written a moment ago"


async def test_an_empty_outbox_has_no_backlog(database: Database) -> None:
    """SD-17."""
    async with database.transaction() as session:
        assert await get_outbox_backlog(session) == Backlog(0, None)
        assert await get_inbox_backlog(session) == Backlog(0, None)


async def test_the_outbox_backlog_counts_what_is_not_published_and_tells_the_oldest(
    dsn: str, database: Database
) -> None:
    """SD-17, QRY-050."""
    await fill_outbox(dsn, 5)
    await rows(dsn, "UPDATE outbox_events SET published_at = now() WHERE (payload->>'n')::int <= 2")
    ((third,),) = await rows(
        dsn, "SELECT occurred_at FROM outbox_events WHERE (payload->>'n')::int = 3"
    )
    async with database.transaction() as session:
        assert await get_outbox_backlog(session) == Backlog(3, third)  # type: ignore[arg-type]


async def test_the_inbox_backlog_counts_what_is_not_processed_and_tells_the_oldest(
    dsn: str, database: Database
) -> None:
    """SD-18, QRY-051."""
    old = datetime.now(UTC) - timedelta(hours=1)
    insert = (
        "INSERT INTO inbox_messages (message_id, subject, received_at, processed_at) VALUES "
        "(gen_random_uuid(), 's', %s, %s)"
    )
    for processed in (old, None, None):
        await rows(dsn, insert, old, processed)
    async with database.transaction() as session:
        assert await get_inbox_backlog(session) == Backlog(2, old)


async def test_the_backlog_is_asked_of_the_partial_index(dsn: str) -> None:
    """T19: what was published long ago costs nothing. A table without statistics is the hard case."""
    await fill_outbox(dsn, 2000)
    await rows(
        dsn, "UPDATE outbox_events SET published_at = now() WHERE (payload->>'n')::int <= 1900"
    )
    scans = """
        SELECT sum(pg_stat_get_xact_numscans(of_the_rest::regclass))::int, pg_stat_get_xact_numscans('outbox_events'::regclass)
        FROM unnest(ARRAY['idx_outbox_unpublished', 'idx_outbox_position']) AS of_the_rest GROUP BY 2"""
    async with Database(DatabaseConfig(dsn)) as database, database.transaction() as session:
        assert (await get_outbox_backlog(session)).count == 100
        # to count, and for the oldest; none of the table
        assert await session.fetch_one(scans, make=lambda *scans: scans) == (2, 0)


async def test_count_and_oldest_are_of_one_snapshot(dsn: str) -> None:
    """QRY-050: what is committed while a look is on its way is in neither."""
    held = (
        f"SELECT waited.* FROM (SELECT pg_advisory_xact_lock(1)) AS held, LATERAL ({OUTBOX} "
        "WHERE held IS NOT NULL) AS waited"
    )
    async with (
        await psycopg.AsyncConnection.connect(dsn) as holder,
        Database(DatabaseConfig(dsn)) as database,
    ):
        await holder.execute("SELECT pg_advisory_xact_lock(1)")
        async with database.transaction() as session:
            look = asyncio.create_task(session.fetch_one(held, make=Backlog))
            await until(lambda: _is_waiting(dsn))
            await fill_outbox(dsn, 1)
            await holder.commit()
            assert await look == Backlog(0, None)
            assert (await get_outbox_backlog(session)).count == 1


async def test_what_was_processed_since_the_last_vacuum_is_walked_over_once(dsn: str) -> None:
    """QRY-051: one old message still waits before two thousand that do not; the next look costs
    pages of the index alone.
    """
    insert = (
        "INSERT INTO inbox_messages (message_id, subject, received_at) SELECT "
        "gen_random_uuid(), %s, %s FROM generate_series(1, %s)"
    )
    await rows(dsn, insert, "old", datetime.now(UTC) - timedelta(hours=1), 1)
    await rows(dsn, insert, "new", datetime.now(UTC), 2000)
    await rows(dsn, "UPDATE inbox_messages SET processed_at = now() WHERE subject = 'new'")
    async with Database(DatabaseConfig(dsn)) as database, database.transaction() as session:
        assert (await get_inbox_backlog(session)).count == 1
        touched = await _touched(session, INBOX)
    ((pages,),) = await rows(dsn, "SELECT pg_relation_size('idx_inbox_unprocessed') / 8192")
    assert 0 < touched <= 2 * pages


async def test_rows_that_were_all_written_again_cost_their_pages_and_not_a_look_each(
    dsn: str,
) -> None:
    """T19: an entry of the index that no vacuum has seen says nothing by itself; two thousand rows
    were written three times.
    """
    await fill_outbox(dsn, 2000)
    for _ in range(2):
        await rows(dsn, "UPDATE outbox_events SET publish_attempts = publish_attempts + 1")
    async with Database(DatabaseConfig(dsn)) as database, database.transaction() as session:
        assert (await get_outbox_backlog(session)).count == 2000
        touched = await _touched(session, OUTBOX)
    ((pages,),) = await rows(
        dsn,
        (
            "SELECT (pg_relation_size('outbox_events') + "
            "pg_relation_size('idx_outbox_unpublished')) / 8192"
        ),
    )
    assert 0 < touched <= pages


async def test_a_look_leaves_the_transaction_as_it_was(dsn: str, database: Database) -> None:
    await fill_outbox(dsn, 3)
    how = (
        "SELECT current_setting('enable_bitmapscan') || current_setting('enable_indexscan') || "
        "current_setting('enable_indexonlyscan')"
    )
    async with database.transaction() as session:
        await session.execute(
            "UPDATE outbox_events SET published_at = now() WHERE (payload->>'n')::int = 1"
        )
        before = await session.fetch_one(how, make=str)
        backlog = await get_outbox_backlog(session)
        after = await session.fetch_one(how, make=str)
    assert (before, after) == ("offonon", "offonon")
    assert backlog.count == await count_unpublished(dsn) == 2


@pytest.mark.matrix
@pytest.mark.slow
@pytest.mark.timeout(1800)
async def test_ten_million_published_rows_do_not_slow_the_backlog_down(postgres: Postgres) -> None:
    """T19: p99 below 5 ms."""
    dsn = await postgres.database()
    await _history(dsn)
    found = await _measured(dsn)
    _keep(postgres.major, found)
    assert max(found[QUIET][1], found[WRITTEN][1]) < 5, found


async def _measured(dsn: str) -> dict[str, tuple[float, float]]:
    """What a look costs, p50 and p99 in ms, by what is asked."""
    async with Database(DatabaseConfig(dsn)) as database:
        nothing = await _looks(database, lambda session: session.fetch_one("SELECT 1", make=int))
        async with database.transaction() as session:
            assert (await get_outbox_backlog(session)).count == WAITING
        asked = await _looks(database, get_outbox_backlog)
        await rows(dsn, "UPDATE outbox_events SET publish_attempts = 1 WHERE published_at IS NULL")
        written = await _looks(database, get_outbox_backlog)
    return {"SELECT 1": nothing, QUIET: asked, WRITTEN: written}


def _keep(major: int, found: dict[str, tuple[float, float]]) -> None:
    """As a page for readers."""
    head = (
        "| asked | published | to publish | p50 ms | p99 ms |\n"
        "| --- | ---: | ---: | ---: | ---: |\n"
    )
    lines = (
        f"| {what} | {PUBLISHED} | {WAITING} | {p50:.2f} | {p99:.2f} |\n"
        for what, (p50, p99) in found.items()
    )
    write_page(
        f"outbox_backlog_{major}",
        "QRY-050 with a long past",
        head + "".join(lines),
        f"PostgreSQL {major}, {LOOKS} looks each.",
    )


async def _is_waiting(dsn: str) -> bool:
    """Whether a session waits for an advisory lock."""
    return (
        await rows(dsn, "SELECT 1 FROM pg_locks WHERE locktype = 'advisory' AND NOT granted") != []
    )


async def _touched(session: Session, query: LiteralString) -> int:
    """Pages that a query looks at, each time that it does."""
    ((explained,),) = await session.fetch(
        f"EXPLAIN (ANALYZE, BUFFERS, FORMAT JSON) {query}", make=list
    )
    plan = explained["Plan"]
    return int(plan["Shared Hit Blocks"] + plan["Shared Read Blocks"])


async def _looks(
    database: Database, look: Callable[[Session], Awaitable[object]]
) -> tuple[float, float]:
    """How long one takes, p50 and p99 in ms."""
    took = []
    async with database.transaction() as session:
        for _ in range(LOOKS):
            since = perf_counter()
            await look(session)
            took.append((perf_counter() - since) * 1000)
    took.sort()
    return took[LOOKS // 2], took[LOOKS * 99 // 100]


async def _history(dsn: str) -> None:
    insert = """
        INSERT INTO outbox_events (id, aggregate_type, aggregate_id, event_type, payload, occurred_at, published_at)
        SELECT lpad(to_hex(n), 32, '0')::uuid, 'order', 'o-1', 'order_paid', '{}', now() - n * interval '1 ms',
               CASE WHEN n > %s THEN now() END
        FROM generate_series(1, %s) AS n"""
    indexes = await rows(
        dsn,
        (
            "SELECT indexname, indexdef FROM pg_indexes WHERE tablename = 'outbox_events' AND "
            "starts_with(indexname, 'idx')"
        ),
    )
    async with await psycopg.AsyncConnection.connect(dsn, autocommit=True) as connection:
        await connection.execute("SET synchronous_commit = off")
        for name, _ in indexes:  # made again afterwards: ten times sooner than row by row
            await connection.execute(f"DROP INDEX {name}")  # type: ignore[arg-type]
        await connection.execute(insert, (WAITING, PUBLISHED + WAITING))
        for _, text in indexes:
            await connection.execute(str(text))  # type: ignore[arg-type]
        await connection.execute("VACUUM (ANALYZE) outbox_events")
        # what a look costs is asked, not what it costs while ten million rows are written out
        await connection.execute("CHECKPOINT")
