import pytest

from router.mailbox.outbox.page import (
    MAX_PAYLOAD_BYTES_READ,
    PAGE_BYTES,
    SELECT_PAGE,
    SELECT_POSITIONS,
    write_array,
)
from router.mailbox.outbox.repository import MARK, PARTITIONS, PostgresOutboxAdapter
from router.mailbox.postgres import Database, Session
from tests.support.mailbox import add_events, an_event, fill_outbox, row
from tests.support.postgres import rows

pytestmark = pytest.mark.both_majors


async def explain_positions(session: Session) -> str:
    return "\n".join(
        await session.fetch(
            f"EXPLAIN {SELECT_POSITIONS}", (list(range(PARTITIONS)), 8000), make=str
        )
    )


async def test_rows_of_a_table_without_statistics_are_chosen_by_the_index(
    dsn: str, database: Database
) -> None:
    """Else all of it is read and sorted for a batch, whenever a service has just committed many."""
    await fill_outbox(dsn, 5000)
    async with database.transaction() as session:
        plan = await explain_positions(session)
    assert "Index Scan using idx_outbox_position" in plan, plan
    assert "Index Scan using idx_outbox_unpublished" in plan, "of those whose time has not come"
    assert "Seq Scan" not in plan, plan


async def test_aggregates_that_wait_are_looked_up_and_not_compared_one_by_one(
    dsn: str, database: Database
) -> None:
    """Thousands that were refused: more than a hash table in work_mem holds, each was compared with
    each row, and a look took minutes.
    """
    await fill_outbox(dsn, 5000, aggregates=5000)
    await rows(
        dsn,
        (
            "INSERT INTO outbox_relay_state SELECT id, aggregate_type, aggregate_id, 1, now(), "
            "now() FROM outbox_events"
        ),
    )
    async with database.transaction() as session:
        await session.execute("SET LOCAL work_mem = '64kB'")
        plan = await explain_positions(session)
    assert "Index Scan using idx_outbox_relay_aggregate" in plan, plan
    assert "SubPlan" not in plan, plan


async def test_a_page_is_read_by_the_index(dsn: str, database: Database) -> None:
    await fill_outbox(dsn, 5000)
    most = MAX_PAYLOAD_BYTES_READ
    async with database.transaction() as session:
        asked = (500, 1500, write_array(range(500, 1501)), most, PAGE_BYTES, most, most)
        plan = "\n".join(await session.fetch(f"EXPLAIN {SELECT_PAGE}", asked, make=str))
    assert "Index Scan using idx_outbox_position" in plan, plan
    assert 'Index Cond: (("position" >=' in plan, plan


async def test_rows_are_marked_by_their_primary_key(dsn: str, database: Database) -> None:
    await fill_outbox(dsn, 5000)
    ids = [str(one) for (one,) in await rows(dsn, "SELECT id FROM outbox_events LIMIT 500")]
    told = (
        "{" + ",".join(ids) + "}",
        "SEA_EVENTS",
        "now",
        500,
        "{" + ",".join(map(str, range(500))) + "}",
    )
    async with database.transaction() as session:
        plan = "\n".join(await session.fetch(f"EXPLAIN {MARK}", told, make=str))
    assert "Index Scan using outbox_events_pkey" in plan, plan


async def test_pages_of_one_transaction_follow_one_another(dsn: str, database: Database) -> None:
    """SD-21: the port's method takes no limit and no cursor, so the transaction's adapter keeps it."""
    await fill_outbox(dsn, 25)
    async with database.transaction() as session:
        outbox = PostgresOutboxAdapter(session, limit=10)
        pages = [await outbox.find_unpublished() for _ in range(4)]
    assert [len(page) for page in pages] == [10, 10, 5, 0]
    found = [event for page in pages for event in page]
    assert len({event.id for event in found}) == 25
    assert [event.occurred_at for event in found] == sorted(
        event.occurred_at for event in found if event.occurred_at is not None
    )


async def test_one_row_is_marked_by_its_id_and_once(dsn: str, database: Database) -> None:
    """SD-14, SD-21: published_at IS NULL is the precondition."""
    (event,) = await add_events(dsn, an_event())
    async with database.transaction() as session:
        for _ in range(2):
            await PostgresOutboxAdapter(session).mark_published(event)
    found = await row(dsn, event)
    assert (found.is_published, found.attempts) == (True, 1)


async def test_a_failure_is_counted_with_its_error_and_parks_at_last(
    dsn: str, database: Database
) -> None:
    """SD-21."""
    (event,) = await add_events(dsn, an_event())
    async with database.transaction() as session:
        outbox = PostgresOutboxAdapter(session)
        parked = [await outbox.increment_attempts(event, f"refused {n}") for n in range(10)]
    assert parked == [*[False] * 9, True]
    found = await row(dsn, event)
    assert (found.attempts, found.error, found.is_parked) == (10, "refused 9", True)


async def test_a_published_row_cannot_fail_any_more(dsn: str, database: Database) -> None:
    (event,) = await add_events(dsn, an_event())
    async with database.transaction() as session:
        outbox = PostgresOutboxAdapter(session)
        await outbox.mark_published(event)
        await outbox.increment_attempts(event, "too late")
    found = await row(dsn, event)
    assert (found.attempts, found.error, found.is_parked) == (1, None, False)
