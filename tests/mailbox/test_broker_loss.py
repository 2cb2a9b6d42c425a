"""T11 and T12: what the broker acknowledged and has no more."""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import pytest

from router.delivery.wire.api import JetStream, Json, StoredMessage
from router.mailbox.outbox.broker_loss import reset_lost_rows
from router.mailbox.postgres import Database
from tests.support.broker import Broker
from tests.support.mailbox import (
    STREAM,
    OutboxStream,
    a_relay,
    all_published,
    count_unpublished,
    fill_outbox,
    run_rounds,
)
from tests.support.postgres import rows
from tests.support.waiting import until


class Expiring(JetStream):
    """All that a stream holds leaves it just before a message is asked for."""

    async def get(self, stream: str, query: Json) -> StoredMessage | None:
        await self.ask(f"STREAM.PURGE.{stream}")
        return await super().get(stream, query)


async def taken_back(database: Database, place: OutboxStream) -> int:
    return (await reset_lost_rows(database, place.patient, STREAM))[1]


async def test_nothing_is_taken_back_while_the_broker_has_it_all(
    dsn: str, database: Database, place: OutboxStream
) -> None:
    await fill_outbox(dsn, 1500)
    await run_rounds(database, place)
    assert await taken_back(database, place) == 0
    assert await count_unpublished(dsn) == 0


@asynccontextmanager
async def forgetting(broker: Broker, place: OutboxStream) -> AsyncIterator[None]:
    """What is stored within the block is not on the disk when the server dies at its end."""
    broker.stop()
    with broker.snapshot() as earlier:
        broker.start()
        await place.back()
        yield
        broker.kill()
        broker.restore(earlier)
    broker.start()


async def test_the_lost_end_of_a_stream_is_published_again(
    dsn: str, database: Database, place: OutboxStream, broker: Broker
) -> None:
    """T11: the store as it was before the last events were on the disk."""
    await fill_outbox(dsn, 700)
    await run_rounds(database, place)
    async with forgetting(broker, place):
        await fill_outbox(dsn, 700)
        await run_rounds(database, place)
    async with a_relay(database, place) as relay:
        await until(lambda: relay.totals.lost == 700)
        await all_published(dsn)
    assert await place.numbers() == list(range(1, 1401))


async def test_a_loss_is_seen_though_another_publisher_filled_its_place(
    dsn: str, database: Database, place: OutboxStream, broker: Broker
) -> None:
    """The last sequence alone would tell that nothing is missing."""
    await fill_outbox(dsn, 100)
    await run_rounds(database, place)
    async with forgetting(broker, place):
        await fill_outbox(dsn, 10)
        await run_rounds(database, place)
    await place.back()
    for number in range(20):
        await place.patient.publish("sea.event.other.v1", b"{}", {"Nats-Msg-Id": f"other-{number}"})
    assert await taken_back(database, place) == 10
    await run_rounds(database, place)
    assert await count_unpublished(dsn) == 0


async def test_what_expires_while_it_is_looked_for_is_not_lost(
    dsn: str, database: Database, place: OutboxStream
) -> None:
    """The newest events of a stream without further writes: they were there when the stream
    reported its last sequence.
    """
    await fill_outbox(dsn, 100)
    await run_rounds(database, place)
    assert (await reset_lost_rows(database, Expiring(place.connection, timeout_s=60.0), STREAM))[
        1
    ] == 0
    assert await count_unpublished(dsn) == 0


@pytest.mark.both_majors
async def test_a_stream_that_was_created_anew_gets_all_of_it_again(
    dsn: str, database: Database, place: OutboxStream
) -> None:
    await fill_outbox(dsn, 600)
    await run_rounds(database, place)
    await place.patient.ask(f"STREAM.DELETE.{STREAM}")
    await place.make_stream()
    assert await taken_back(database, place) == 600
    await run_rounds(database, place)
    assert sorted(await place.numbers()) == list(range(1, 601))


async def test_a_stream_that_was_created_anew_is_known_though_it_has_gone_further(
    dsn: str, database: Database, place: OutboxStream
) -> None:
    """By its sequences alone what stood in the old one would seem to have expired."""
    await fill_outbox(dsn, 5)
    await run_rounds(database, place)
    await place.patient.ask(f"STREAM.DELETE.{STREAM}")
    await place.make_stream()
    for number in range(10):
        await place.patient.publish("sea.event.other.v1", b"{}", {"Nats-Msg-Id": f"other-{number}"})
    await place.patient.ask(f"STREAM.PURGE.{STREAM}")
    assert await taken_back(database, place) == 5


@pytest.mark.parametrize("place_in_file", [0.1, 0.9])
async def test_what_a_damaged_block_cost_is_published_again(
    dsn: str, database: Database, place: OutboxStream, broker: Broker, place_in_file: float
) -> None:
    """T12: one bit of a block is wrong when the killed server reads it again; it drops all that
    stood behind.
    """
    await fill_outbox(dsn, 1000)
    await run_rounds(database, place)
    broker.kill()
    broker.damage(place_in_file)
    broker.start()
    await place.back()
    async with a_relay(database, place) as relay:
        await until(lambda: relay.totals.lost > 0)
        await all_published(dsn)
    assert sorted(set(await place.numbers())) == list(range(1, 1001))


@pytest.mark.parametrize("place_in_file", [0.1, 0.9])
async def test_a_block_that_rots_while_the_server_is_stopped_costs_one_event_and_it_is_published_again(
    dsn: str, database: Database, place: OutboxStream, broker: Broker, place_in_file: float
) -> None:
    """T12: the server trusts its index; it counts the message and tells of no hole, so only reading
    finds out.
    """
    await fill_outbox(dsn, 1000)
    await run_rounds(database, place)
    broker.stop()
    broker.damage(place_in_file)
    broker.start()
    await place.back()
    state = ((await place.patient.stream(STREAM)) or {})["state"]
    assert (state["messages"], state.get("num_deleted", 0), await taken_back(database, place)) == (
        1000,
        0,
        0,
    )
    async with a_relay(database, place) as relay:
        await until(lambda: relay.totals.lost == 1)
        await all_published(dsn)
    assert sorted(await place.numbers()) == list(range(1, 1001))


async def test_holes_inside_a_stream_are_filled_again(
    dsn: str, database: Database, place: OutboxStream
) -> None:
    """T12 in small: the server says itself which sequences it has no more."""
    await fill_outbox(dsn, 50)
    await run_rounds(database, place)
    for sequence in (7, 20):
        await place.patient.ask(f"STREAM.MSG.DELETE.{STREAM}", {"seq": sequence})
    assert await taken_back(database, place) == 2
    assert await count_unpublished(dsn) == 2
    assert await taken_back(database, place) == 0


@pytest.mark.parametrize("purge", [{"keep": 10}, {}], ids=["some", "all"])
async def test_what_has_expired_is_not_lost(
    dsn: str, database: Database, place: OutboxStream, purge: dict[str, int]
) -> None:
    await fill_outbox(dsn, 50)
    await run_rounds(database, place)
    await place.patient.ask(f"STREAM.PURGE.{STREAM}", purge)
    assert await taken_back(database, place) == 0


async def test_a_stream_created_anew_under_a_working_relay_is_noticed(
    dsn: str, database: Database, place: OutboxStream
) -> None:
    """Its sequences begin again: no reconnect is needed to see that."""
    async with a_relay(database, place) as relay:
        await fill_outbox(dsn, 30)
        await all_published(dsn)
        await place.patient.ask(f"STREAM.DELETE.{STREAM}")
        await place.make_stream()
        await fill_outbox(dsn, 1)
        await all_published(dsn)
        await fill_outbox(dsn, 1)
        await all_published(dsn)
        assert relay.totals.lost >= 30
    assert {*await place.numbers()} == {*range(1, 33)}


async def test_publish_acks_stand_for_every_published_row(
    dsn: str, database: Database, place: OutboxStream
) -> None:
    await fill_outbox(dsn, 40)
    await run_rounds(database, place)
    query = (
        "SELECT count(*) FROM outbox_events AS e, outbox_publish_acks AS r WHERE e.id = "
        "ANY(r.outbox_ids)"
    )
    assert await rows(dsn, query) == [(40,)]
