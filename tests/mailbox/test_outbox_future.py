"""Events whose time lies ahead of the database's clock: stored and held, or refused. None is
dropped, by any way of adding it.
"""

from datetime import UTC, datetime, timedelta

import psycopg
import pytest
from nats.aio.client import Client

from router import outbox
from router.core.errors import Poison, Transient
from router.mailbox.inbox.event import InboxEvent
from router.mailbox.inbox.transactional_strategy import Handler
from router.mailbox.policies import FutureEvent, PolicyViolated
from router.mailbox.postgres import Database, Driver
from tests.support.broker import Broker
from tests.support.inbox import an_inbox, effects, is_settled, publish, read_dead_letters, record
from tests.support.mailbox import add_events, an_event, an_outbox_stream, run_rounds
from tests.support.postgres import rows
from tests.support.waiting import until

MANY = 1000


def ahead(seconds: float) -> datetime:
    return datetime.now(UTC) + timedelta(seconds=seconds)


async def stored(dsn: str) -> int:
    ((count,),) = await rows(dsn, "SELECT count(*) FROM outbox_events")
    assert isinstance(count, int)
    return count


async def test_a_pipeline_loses_no_event_of_a_clock_that_is_ahead(dsn: str) -> None:
    """SD-8: a pipeline tells how many rows were written only at its end, so nothing may hang on
    that count.
    """
    await add_in_pipeline(dsn, *[0.3] * MANY)
    assert await stored(dsn) == MANY


def test_a_synchronous_pipeline_loses_none_either(dsn: str) -> None:
    with psycopg.connect(dsn) as connection, connection.pipeline():
        for _ in range(10):
            outbox.add(connection, an_event(occurred_at=ahead(0.3)))
    with psycopg.connect(dsn) as connection:
        assert connection.execute("SELECT count(*) FROM outbox_events").fetchone() == (10,)


async def test_a_pipeline_that_adds_an_event_of_another_hour_is_refused_as_a_whole(
    dsn: str,
) -> None:
    """SD-8, SD-26: the table's own check says no. Whichever statement the server's answer meets
    raises: a later `add`, or the end.
    """
    with pytest.raises((psycopg.errors.CheckViolation, FutureEvent)):
        await add_in_pipeline(dsn, 0.0, 3600.0, 0.0)
    assert await stored(dsn) == 0


async def test_an_event_ahead_of_its_time_is_published_when_its_time_comes(
    dsn: str, database: Database, broker: Broker
) -> None:
    """SD-8: `outbox.occurred_at <= NOW()` holds of every event that is published."""
    early, due = await add_events(dsn, an_event("o-1", occurred_at=ahead(30)), an_event("o-2"))
    async with an_outbox_stream(broker) as place:
        await run_rounds(database, place)
        assert await place.ids() == [str(due)]
        # thirty seconds later
        await rows(dsn, "UPDATE outbox_events SET occurred_at = now() WHERE id = %s", early)
        await run_rounds(database, place)
        assert await place.ids() == [str(due), str(early)]


async def test_what_a_handler_emits_by_a_clock_that_is_ahead_is_stored_with_its_effect(
    broker: Broker, nc: Client, dsn: str
) -> None:
    """Consume, then emit: of many in one pipeline, of one alone."""
    async with an_inbox(broker.url, dsn, emitting(0.3)):
        await publish(nc, range(MANY))
        await until(lambda: is_settled(nc), within_s=20)
    assert (len(await effects(dsn)), await stored(dsn), await read_dead_letters(nc)) == (
        MANY,
        MANY,
        [],
    )


async def test_an_event_of_another_hour_is_a_failure_that_comes_again_not_poison(
    broker: Broker, nc: Client, dsn: str
) -> None:
    """The emitted event breaks a rule, the received one does not: later it may be handled."""
    seconds = [3600.0]

    async def handle(connection: Driver, event: InboxEvent) -> None:
        await emitting(seconds[0])(connection, event)

    async with an_inbox(broker.url, dsn, handle, ack_wait=30.0, nak_after=0.05) as running:
        await publish(nc, range(20))
        await until(lambda: running.figures.failed >= 20)
        seconds[0] = 0.0
        await until(lambda: is_settled(nc), within_s=20)
    assert (len(await effects(dsn)), await stored(dsn), await read_dead_letters(nc)) == (20, 20, [])


async def test_a_future_event_may_be_added_later_an_invalid_one_never(dsn: str) -> None:
    """POL-047-001, POL-047-002: what an inbox, a bus and an agent do with each follows from its
    class.
    """
    with pytest.raises(PolicyViolated) as future:
        await add_events(dsn, an_event(occurred_at=ahead(3600)))
    with pytest.raises(PolicyViolated) as invalid:
        await add_events(dsn, an_event(kind="no subject"))
    assert isinstance(future.value, Transient)
    assert isinstance(invalid.value, Poison)


async def add_in_pipeline(dsn: str, *seconds: float) -> None:
    async with await psycopg.AsyncConnection.connect(dsn) as connection, connection.pipeline():
        for each in seconds:
            await outbox.add(connection, an_event(occurred_at=ahead(each)))


def emitting(seconds: float) -> Handler:
    async def handle(connection: Driver, event: InboxEvent) -> None:
        await record(connection, event)
        await outbox.add(connection, an_event(occurred_at=ahead(seconds)))

    return handle
