"""A handler that catches an error of the database, or ends the transaction: nothing of it stands,
so nothing of it is acknowledged.
"""

from contextlib import suppress

import psycopg
import pytest
from nats.aio.client import Client

from router.mailbox.inbox.event import InboxEvent
from router.mailbox.postgres import Driver
from tests.support.broker import Broker
from tests.support.inbox import (
    an_id,
    an_inbox,
    effects,
    is_settled,
    publish,
    read_dead_letters,
    record,
    row_of,
)
from tests.support.waiting import until

REFUSED = "SELECT 1 / 0"


@pytest.mark.parametrize(
    "place", [(1, 0), (60, 59), (60, 45)], ids=["alone", "last of a batch", "within a batch"]
)
@pytest.mark.parametrize("statement", [REFUSED, "ROLLBACK"])
async def test_an_event_whose_transaction_cannot_commit_fails_alone(
    broker: Broker, nc: Client, dsn: str, place: tuple[int, int], statement: str
) -> None:
    """Its message was acknowledged, and its row and effects were rolled back."""
    count, offender = place

    async def handle(connection: Driver, event: InboxEvent) -> None:
        await record(connection, event)
        if event.message_id == an_id(offender):
            with suppress(psycopg.Error):
                await (await connection.execute(statement)).fetchone()  # type: ignore[arg-type]

    async with an_inbox(broker.url, dsn, handle, max_deliver=1) as running:
        await publish(nc, range(count))
        await until(lambda: is_settled(nc))
        await until(lambda: read_dead_letters(nc))
        assert not running.has_ended
    assert [letter["message_id"] for letter in await read_dead_letters(nc)] == [an_id(offender)]
    assert sorted(await effects(dsn)) == sorted(
        an_id(number) for number in range(count) if number != offender
    )
    assert ("25P02" if statement == REFUSED else "3B001") in str((await row_of(dsn, offender))[2])


async def test_a_refusal_that_is_expected_is_caught_at_a_savepoint(
    broker: Broker, nc: Client, dsn: str
) -> None:
    async def handle(connection: Driver, event: InboxEvent) -> None:
        with suppress(psycopg.Error):
            async with connection.transaction():
                await connection.execute(REFUSED)
        await record(connection, event)

    async with an_inbox(broker.url, dsn, handle, max_deliver=1):
        await publish(nc, range(3))
        await until(lambda: is_settled(nc))
    assert sorted(await effects(dsn)) == [an_id(number) for number in range(3)]
    assert not await read_dead_letters(nc)
