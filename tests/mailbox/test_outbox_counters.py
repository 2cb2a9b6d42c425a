"""What a row of the outbox costs, counted: one publish, and a few transactions for a thousand of
them.
"""

import pytest

from router.mailbox.postgres import Database
from tests.support.broker import Broker
from tests.support.mailbox import an_outbox_stream, fill_outbox, run_rounds
from tests.support.postgres import rows
from tests.support.socket_tap import open_socket_tap

pytestmark = pytest.mark.both_majors

COUNT = 2_000
EVENTS = "sea.event."


async def test_a_row_is_one_publish_and_a_round_one_transaction(
    dsn: str, database: Database, broker: Broker
) -> None:
    await fill_outbox(dsn, COUNT)
    before = await _transactions(dsn)
    with open_socket_tap() as tap:
        async with an_outbox_stream(broker) as place:
            await run_rounds(database, place)
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
