"""T12: what only reading finds, read at a cost that other writers cannot raise, beside a relay that
never waits for it.
"""

import asyncio
import itertools

import pytest

from router.config import Settings
from router.delivery.consume.stream_reader import StreamReader
from router.delivery.wire.api import JetStream, StoredMessage
from router.delivery.wire.first_connection import connect
from router.mailbox.outbox.broker_loss import (
    SELECT_NEWEST,
    PublishAckRow,
    read_stream_snapshot,
    reset_rows,
)
from router.mailbox.outbox.integrity_scan import (
    GAP,
    MAX_CONCURRENT_READS,
    MAX_SINGLE_READS,
    NEWEST_FIRST,
    SCAN_RETRY_S,
    IntegrityScan,
    stretches,
)
from router.mailbox.outbox.publisher import OutboxPublisher
from router.mailbox.postgres import Database
from router.mailbox.relay_process import RelayService
from tests.support.broker import Broker
from tests.support.mailbox import (
    STREAM,
    OutboxStream,
    a_relay,
    add_events,
    all_published,
    an_event,
    an_outbox_stream,
    config,
    count_unpublished,
    fill_outbox,
    run_rounds,
)
from tests.support.observability import capture_log
from tests.support.waiting import until

# A login without a name may do everything; `relay` may make no consumer.
ROLES = """authorization { users [ { user: all, password: all }
  { user: relay, password: relay, permissions { publish { allow: ">", deny: "$JS.API.CONSUMER.CREATE.>" } } } ] }
no_auth_user: all"""


@pytest.fixture
def heads(monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """How many heads each reading brought, as they come."""
    came: list[int] = []
    read = StreamReader.read

    async def counted(self: StreamReader, most: int, wait_s: float = 0.0) -> list[StoredMessage]:
        found = await read(self, most, wait_s)
        came.append(len(found))
        return found

    monkeypatch.setattr(StreamReader, "read", counted)
    return came


async def other_messages(place: OutboxStream, count: int) -> None:
    """Messages of another publisher in the same stream."""
    for _ in range(count - 1):
        place.connection.publish_nowait("sea.event.other.v1", b"{}")
    await place.patient.publish("sea.event.other.v1", b"{}", {})


async def test_events_far_apart_cost_no_reading_of_what_stands_between(
    dsn: str, database: Database, place: OutboxStream, heads: list[int]
) -> None:
    """Two ack rows and 20 000 messages of others between them: two requests, not 20 002 heads."""
    await add_events(dsn, an_event())
    await run_rounds(database, place)
    await other_messages(place, 20_000)
    await add_events(dsn, an_event())
    await run_rounds(database, place)
    scrub = IntegrityScan(database, place.patient, STREAM, pytest.fail)
    scrub.restart()
    await scrub.step()
    assert (scrub.read, heads) == (2, [])


async def test_events_close_together_are_read_over_few_events_of_others(
    dsn: str, database: Database, place: OutboxStream, heads: list[int]
) -> None:
    for _ in range(MAX_SINGLE_READS):
        await add_events(dsn, an_event())
        await run_rounds(database, place)
        await other_messages(place, 2)
    scrub = IntegrityScan(database, place.patient, STREAM, pytest.fail)
    scrub.restart()
    await scrub.step()
    assert (scrub.read, sum(heads)) == (MAX_SINGLE_READS, 3 * MAX_SINGLE_READS - 2)


@pytest.mark.parametrize(
    ("far", "count"), [(0, MAX_SINGLE_READS), (GAP + 1, 3)], ids=["close", "far apart"]
)
async def test_what_is_gone_is_published_again(
    dsn: str, database: Database, place: OutboxStream, far: int, count: int
) -> None:
    for _ in range(count):
        await add_events(dsn, an_event())
        await run_rounds(database, place)
        if far:
            await other_messages(place, far)
    await place.patient.ask(f"STREAM.MSG.DELETE.{STREAM}", {"seq": 1 + (1 + far)})
    lost: list[int] = []
    scrub = IntegrityScan(database, place.patient, STREAM, lost.append)
    scrub.restart()
    await scrub.step()
    assert (lost, await count_unpublished(dsn)) == ([1], 1)


def test_a_stretch_ends_at_a_gap_and_is_read_if_it_is_long_enough() -> None:
    close, one_less = range(100, 100 + MAX_SINGLE_READS), range(5000, 5000 + MAX_SINGLE_READS - 1)
    as_far_as_may_be = range(9000, 9000 + (GAP + 1) * MAX_SINGLE_READS, GAP + 1)
    too_far = range(20_000, 20_000 + (GAP + 2) * MAX_SINGLE_READS, GAP + 2)
    assert stretches([*too_far, *close, *one_less, *as_far_as_may_be]) == [
        (100, 99 + MAX_SINGLE_READS),
        (9000, as_far_as_may_be[-1]),
    ]


async def test_a_step_looks_for_no_more_than_a_thousand_events(
    dsn: str, database: Database, place: OutboxStream
) -> None:
    """Bounded, too, in what is its own: a page of full ack rows is twenty times as much."""
    await fill_outbox(dsn, 2500)
    await run_rounds(database, place)
    scrub = IntegrityScan(database, place.patient, STREAM, pytest.fail)
    scrub.restart()
    read = []
    for _ in range(4):
        await scrub.step()
        read.append(scrub.read)
    assert read == [500, 1500, 2500, 2500]


async def test_it_reads_every_publish_ack_once_and_rests_nine_times_as_long_as_it_works(
    dsn: str, database: Database, place: OutboxStream
) -> None:
    await fill_outbox(dsn, 210)
    await run_rounds(database, place, page=10)
    ticks, rests = itertools.count(), list[float]()

    async def rest(seconds: float) -> None:
        rests.append(seconds)

    # a step takes one
    scrub = IntegrityScan(
        database, place.patient, STREAM, pytest.fail, clock=lambda: float(next(ticks)), sleep=rest
    )
    scrub.restart()
    task = asyncio.create_task(scrub.run())
    await until(lambda: len(rests) == 2)
    task.cancel()
    await asyncio.wait({task})
    assert (scrub.read, rests) == (210, [9.0, 9.0])


async def test_what_another_has_taken_back_is_left_alone(
    dsn: str, database: Database, place: OutboxStream
) -> None:
    """It may be published again by now: two relays, or a relay's look and its scrub, found the same
    loss.
    """
    await fill_outbox(dsn, 3)
    await run_rounds(database, place)
    standing = await read_stream_snapshot(place.patient, STREAM)
    async with database.transaction() as session:
        (ack_row,) = await session.fetch(
            SELECT_NEWEST, (STREAM, *NEWEST_FIRST, 1), make=PublishAckRow
        )
        assert await reset_rows(session, standing, ack_row, set(ack_row.sequences)) == 3
    await run_rounds(database, place)
    async with database.transaction() as session:
        assert await reset_rows(session, standing, ack_row, set(ack_row.sequences)) == 0


async def test_begun_again_meanwhile_it_starts_from_the_newest(
    dsn: str, database: Database, place: OutboxStream
) -> None:
    await fill_outbox(dsn, 30)
    await run_rounds(database, place)
    scrub = IntegrityScan(database, place.patient, STREAM, pytest.fail)
    scrub.restart()
    step = asyncio.create_task(scrub.step())
    await asyncio.sleep(0)  # it has its way in hand
    scrub.restart()
    await step
    await scrub.step()
    assert scrub.read == 60


async def test_the_relays_process_has_it_as_a_child(
    dsn: str, database: Database, place: OutboxStream
) -> None:
    service = RelayService(Settings.model_validate({"mailbox": {"dsn": dsn}}))
    tree = service._tree(OutboxPublisher(config(), database, place.jetstream))
    assert [child.name for child in tree.children] == [
        "http",
        "gauges",
        "retention",
        "integrity_scan",
        "relay",
    ]


async def test_a_relay_that_may_not_read_publishes_and_says_so_once(
    dsn: str, database: Database
) -> None:
    with Broker(ROLES) as broker:
        async with an_outbox_stream(broker):
            connection = await connect({"servers": [broker.url.replace("//", "//relay:relay@")]})
            with capture_log("warning") as lines:
                try:
                    await _publishes_while_the_scrub_fails(
                        dsn, database, OutboxStream(JetStream(connection, timeout_s=60.0))
                    )
                finally:
                    await connection.close()
            assert [
                line["stream"]
                for line in lines.all()
                if line["event"] == "outbox.integrity_scan_failed"
            ] == [STREAM]


async def _publishes_while_the_scrub_fails(
    dsn: str, database: Database, place: OutboxStream
) -> None:
    await fill_outbox(dsn, MAX_CONCURRENT_READS + MAX_SINGLE_READS)
    await run_rounds(database, place)
    rests, heard = list[float](), len(place.connection.callbacks)

    async def rest(seconds: float) -> None:
        rests.append(seconds)
        await asyncio.sleep(0)

    async with a_relay(database, place, store_timeout_s=60.0) as relay:
        relay.integrity_scan._sleep = rest
        await until(lambda: len(rests) >= 2)
        await fill_outbox(dsn, 5)
        await all_published(dsn)
        assert relay.trouble is None
    assert (set(rests), len(place.connection.callbacks)) == ({SCAN_RETRY_S}, heard), (
        "a reader that was refused left something behind"
    )
