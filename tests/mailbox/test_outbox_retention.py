import pytest

from router.mailbox.outbox.repository import OutboxRetention
from router.mailbox.postgres import Database
from tests.support.mailbox import OutboxStream, fill_outbox, run_rounds
from tests.support.postgres import rows

pytestmark = pytest.mark.both_majors


async def left(dsn: str) -> tuple[object, ...]:
    (found,) = await rows(
        dsn,
        "SELECT (SELECT count(*) FROM outbox_events), (SELECT count(*) FROM outbox_publish_acks)",
    )
    return found


async def test_published_rows_leave_with_their_publish_acks_a_handful_at_a_time(
    dsn: str, database: Database, place: OutboxStream
) -> None:
    await fill_outbox(dsn, 1200)
    await run_rounds(database, place, page=500)
    assert await left(dsn) == (1200, 3)
    retention = OutboxRetention(database, 0.0, ack_rows=1)
    assert await retention.sweep() == 1200
    assert await left(dsn) == (0, 0)


async def test_what_is_not_old_enough_stays(
    dsn: str, database: Database, place: OutboxStream
) -> None:
    await fill_outbox(dsn, 10)
    await run_rounds(database, place)
    assert await OutboxRetention(database, 3600.0).sweep() == 0
    assert await left(dsn) == (10, 1)


async def test_what_was_taken_back_and_is_not_published_stays(
    dsn: str, database: Database, place: OutboxStream
) -> None:
    await fill_outbox(dsn, 10)
    await run_rounds(database, place)
    await rows(dsn, "UPDATE outbox_events SET published_at = NULL WHERE (payload->>'n')::int <= 4")
    assert await OutboxRetention(database, 0.0, ack_rows=1).sweep() == 6
