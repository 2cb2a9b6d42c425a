"""What a row of the outbox costs, counted: one publish, and a few transactions for a thousand of them."""

import pytest

from router.mailbox.postgres import Database
from tests.support.broker import Broker
from tests.support.mailbox import a_place, filled, rounds
from tests.support.postgres import rows
from tests.support.tapped import tapped

pytestmark = pytest.mark.both_majors

COUNT = 2_000
EVENTS = "sea.event."


async def test_a_row_is_one_publish_and_a_round_one_transaction(dsn: str, database: Database, broker: Broker) -> None:
    await filled(dsn, COUNT)
    before = await _transactions(dsn)
    with tapped() as tap:
        async with a_place(broker) as place:
            await rounds(database, place)
    published = tap.published((EVENTS,))
    assert published[EVENTS] == COUNT
    assert published.total() - COUNT <= 10
    assert await _transactions(dsn) - before <= 3  # what wrote: the claim, the publish acks
    assert tap.bytes((EVENTS,))[EVENTS] / COUNT <= 400
    assert tap.writes <= COUNT / 10


async def _transactions(dsn: str) -> int:
    """How many have written so far; to ask is not one."""
    ((snapshot,),) = await rows(dsn, "SELECT pg_snapshot_xmax(pg_current_snapshot())::text::bigint")
    assert isinstance(snapshot, int)
    return snapshot
