"""The inbox's rows, one at a time as the port words them, and many at once as the consumer needs
them.
"""

import asyncio
from uuid import UUID

import pytest

from router.mailbox.entities import InboxMessage
from router.mailbox.inbox.adapter import InboxMark, PostgresInboxAdapter
from router.mailbox.ports import InboxRepository
from router.mailbox.postgres import Database
from tests.support.inbox import an_id, row_of
from tests.support.postgres import rows
from tests.support.waiting import until

pytestmark = pytest.mark.both_majors

ONE = InboxMessage(UUID(an_id(1)), "vibespro.event.vibe_created.v1")

BEGUN = (an_id(1), ONE.subject, 1)


async def test_a_message_is_inserted_begun_again_and_then_skipped(
    database: Database, dsn: str
) -> None:
    """SD-3, SD-9, SD-15, SD-22."""
    assert await _insert(database) == 1
    await _with(database, lambda port: port.record_error(ONE.message_id, "503"))
    assert await row_of(dsn, 1) == (False, 1, "503")
    assert await _insert(database) == 2
    await _with(database, lambda port: port.mark_processed(ONE.message_id))
    assert await _insert(database) is None
    assert await row_of(dsn, 1) == (True, 2, None)


async def test_what_is_processed_stays_as_it_is(database: Database, dsn: str) -> None:
    await _insert(database)
    await _with(database, lambda port: port.mark_processed(ONE.message_id))
    await _with(database, lambda port: port.record_error(ONE.message_id, "late"))
    assert await row_of(dsn, 1) == (True, 1, None)


async def test_many_are_received_and_settled_in_one_statement_each(
    database: Database, dsn: str
) -> None:
    await rows(dsn, "INSERT INTO inbox_messages VALUES (%s, 's', now(), now(), 1)", an_id(2))
    async with database.transaction() as session:
        adapter = PostgresInboxAdapter(session)
        assert await adapter.receive([(an_id(number), "s") for number in (3, 2, 1)]) == {
            an_id(1): 1,
            an_id(3): 1,
        }
        assert (
            await adapter.settle(
                [
                    InboxMark(an_id(1), True),
                    InboxMark(an_id(3), False, "503"),
                    InboxMark(an_id(2), False, "x"),
                ]
            )
            == 2
        )
    assert [await row_of(dsn, number) for number in (1, 2, 3)] == [
        (True, 1, None),
        (True, 1, None),
        (False, 1, "503"),
    ]


async def test_two_processes_never_apply_one_message(database: Database) -> None:
    """SD-36: the second waits for the first one's transaction, and finds it processed."""
    await _insert(database)
    is_locked, go_on = asyncio.Event(), asyncio.Event()

    async def first() -> set[str]:
        async with database.transaction() as session:
            ours = await PostgresInboxAdapter(session).lock([BEGUN])
            is_locked.set()
            await go_on.wait()
        return ours

    async def second() -> set[str]:
        await is_locked.wait()
        async with database.transaction() as session:
            asyncio.get_running_loop().call_later(0.1, go_on.set)
            return await PostgresInboxAdapter(session).lock([BEGUN])

    assert await asyncio.gather(first(), second()) == [{an_id(1)}, set()]


async def test_one_whose_transaction_did_not_end_well_is_free_again(database: Database) -> None:
    await _insert(database)
    try:
        async with database.transaction() as session:
            await PostgresInboxAdapter(session).lock([BEGUN])
            raise ValueError("undone")
    except ValueError:
        pass
    assert await _insert(database) == 2


async def test_a_row_that_is_missing_is_made_by_its_lock(database: Database, dsn: str) -> None:
    """A standby that took over had lost it; "not there" was taken for "processed by another
    process".
    """
    await _insert(database)
    await rows(dsn, "INSERT INTO inbox_messages VALUES (%s, 's', now(), now(), 1)", an_id(2))
    await rows(dsn, "DELETE FROM inbox_messages WHERE message_id = %s", an_id(1))
    async with database.transaction() as session:
        begun = [(an_id(3), "s", 1), (an_id(2), "s", 1), (an_id(1), "t", 4)]
        assert await PostgresInboxAdapter(session).lock(begun) == {an_id(1), an_id(3)}
    query = (
        "SELECT subject, attempts, processed_at = received_at FROM inbox_messages WHERE "
        "message_id = %s"
    )
    assert await rows(dsn, query, an_id(1)) == [("t", 4, True)]
    assert await _insert(database) is None


async def test_two_processes_make_a_missing_row_once(database: Database) -> None:
    is_locked = asyncio.Event()

    async def second() -> set[str]:
        await is_locked.wait()
        async with database.transaction() as session:
            return await PostgresInboxAdapter(session).lock([BEGUN])

    waiting = asyncio.create_task(second())
    async with database.transaction() as session:
        assert await PostgresInboxAdapter(session).lock([BEGUN]) == {an_id(1)}
        is_locked.set()
        await until(lambda: _is_waiting(database), what="the second one waits for the first")
    assert await waiting == set()


async def test_an_inbox_is_claimed_once(database: Database) -> None:
    """SD-28, X9."""
    async with database.transaction() as session:
        adapter = PostgresInboxAdapter(session)
        assert [
            await adapter.claim("S", "d"),
            await adapter.claim("S", "d"),
            await adapter.claim("S", "e"),
        ] == [("S", "d")] * 3


async def _is_waiting(database: Database) -> bool:
    async with database.transaction() as session:
        return bool(
            await session.fetch_one("SELECT count(*) FROM pg_locks WHERE NOT granted", make=int)
        )


async def _insert(database: Database) -> int | None:
    async with database.transaction() as session:
        port: InboxRepository = PostgresInboxAdapter(session)
        return await port.insert(ONE)


async def _with(database: Database, work) -> None:  # type: ignore[no-untyped-def]
    """A repository lives as long as its transaction (SD-35)."""
    async with database.transaction() as session:
        await work(PostgresInboxAdapter(session))
