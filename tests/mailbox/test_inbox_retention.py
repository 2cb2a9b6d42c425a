"""Rows of the inbox leave when nothing can ask for them any more, and not before."""

from collections.abc import AsyncIterator

import pytest

from router.delivery.wire import topology
from router.delivery.wire.api import JetStream
from router.delivery.wire.topology import Topology
from router.mailbox.inbox.adapter import DELETE_OLD_ROWS, InboxRetention
from router.mailbox.postgres import Database
from router.mailbox.streams import events_stream
from tests.support.broker import Broker
from tests.support.delivery import connected
from tests.support.postgres import rows

pytestmark = pytest.mark.both_majors

STREAM = "VIBESPRO_EVENTS"
HOUR_S = 3600.0
FILL = """
    INSERT INTO inbox_messages (message_id, subject, received_at, processed_at, attempts)
    SELECT gen_random_uuid(), 's', now() - make_interval(secs => %s), CASE WHEN %s THEN now() - make_interval(secs => %s) END, 1
    FROM generate_series(1, %s)"""


@pytest.fixture
async def jetstream(broker: Broker) -> AsyncIterator[JetStream]:
    async with connected(broker.url) as connection:
        yield JetStream(connection)


async def a_stream(jetstream: JetStream, max_age: float) -> None:
    await topology.create(
        jetstream, Topology((events_stream("vibespro", max_age=max_age, max_bytes=-1),))
    )


async def filled(dsn: str, count: int, age_s: float, *, is_processed: bool = True) -> None:
    await rows(dsn, FILL, age_s, is_processed, age_s, count)


async def left(dsn: str) -> int:
    ((count,),) = await rows(dsn, "SELECT count(*) FROM inbox_messages")
    assert isinstance(count, int)
    return count


def a_retention(database: Database, jetstream: JetStream, keep: float = HOUR_S) -> InboxRetention:
    return InboxRetention(database, jetstream, STREAM, keep, pages=2, pause_s=0.0)


async def test_old_rows_leave_some_pages_at_a_time_and_what_is_young_or_not_processed_stays(
    dsn: str, database: Database, jetstream: JetStream
) -> None:
    """T20: over as many pages as there are."""
    await a_stream(jetstream, max_age=60.0)
    await filled(dsn, 500, 2 * HOUR_S)
    await filled(dsn, 7, 2 * HOUR_S, is_processed=False)
    await filled(dsn, 30, HOUR_S / 2)
    assert await a_retention(database, jetstream).sweep() == 500
    assert await left(dsn) == 37


@pytest.mark.parametrize("max_age", [3 * HOUR_S, 0.0], ids=["longer", "for_ever"])
async def test_a_row_stays_as_long_as_the_stream_may_hold_its_event(
    dsn: str, database: Database, jetstream: JetStream, max_age: float
) -> None:
    """SD-15: a durable that is made anew is given all of them again."""
    await a_stream(jetstream, max_age)
    await filled(dsn, 10, 2 * HOUR_S)
    assert await a_retention(database, jetstream).sweep() == 0
    assert await left(dsn) == 10


async def test_a_row_stays_while_there_is_no_stream_to_ask(
    dsn: str, database: Database, jetstream: JetStream
) -> None:
    await filled(dsn, 10, 2 * HOUR_S)
    assert await a_retention(database, jetstream).sweep() == 0


async def test_only_the_pages_in_hand_are_read(dsn: str, database: Database) -> None:
    """The table has no index on processed_at, and a handful must not cost a look at all of it."""
    await filled(dsn, 500, 0.0)
    async with database.transaction() as session:
        plan = await session.fetch(f"EXPLAIN {DELETE_OLD_ROWS}", ("(0,0)", "(2,0)", 1.0), make=str)
    assert any("Tid Range Scan" in line for line in plan), plan
