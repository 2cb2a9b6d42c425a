"""One inbox on a real nats-server and a real PostgreSQL: what becomes of a message and its row, and
what the server is told.
"""

import asyncio

import pytest
from nats.aio.client import Client

from router.core.errors import Misconfigured, Poison
from router.delivery.wire.api import JetStream
from router.mailbox.inbox.dead_letters import dead_letters_stream
from router.mailbox.inbox.event import InboxEvent
from router.mailbox.inbox.handling import HandlerResult
from router.mailbox.inbox.transactional_strategy import Handler
from router.mailbox.postgres import Driver
from router.sdk.samples.service import SampleService
from tests.support.broker import Broker
from tests.support.delivery import connected
from tests.support.inbox import (
    a_service,
    an_id,
    an_inbox,
    count_unprocessed,
    effects,
    is_settled,
    publish,
    read_dead_letters,
    record,
    record_acks,
    row_of,
)
from tests.support.made_anew import create_streams
from tests.support.postgres import rows
from tests.support.waiting import until


@pytest.mark.both_majors
async def test_each_event_is_handled_once_and_its_row_says_so(
    broker: Broker, nc: Client, dsn: str
) -> None:
    """SD-11, SD-15, SD-33, SD-36."""
    async with an_inbox(broker.url, dsn, record):
        await publish(nc, range(200))
        await until(lambda: is_settled(nc))
    assert sorted(await effects(dsn)) == sorted(an_id(number) for number in range(200))
    assert (await count_unprocessed(dsn), await row_of(dsn, 7)) == (0, (True, 1, None))


async def test_one_that_was_processed_before_is_acknowledged_and_nothing_else(
    broker: Broker, nc: Client, dsn: str
) -> None:
    """SD-9, SD-15: its id is unique."""
    await rows(dsn, "INSERT INTO inbox_messages VALUES (%s, 's', now(), now(), 1)", an_id(1))
    async with an_inbox(broker.url, dsn, record) as running:
        await publish(nc, [1, 2])
        await until(lambda: effects(dsn))  # the server may say "nothing waits" before it has looked
        await until(lambda: is_settled(nc))
    assert await effects(dsn) == [an_id(2)]
    assert running.figures.duplicates == 1


async def test_one_that_was_begun_and_never_ended_is_begun_again(
    broker: Broker, nc: Client, dsn: str
) -> None:
    """SD-15, X14: a row is a receipt, not a verdict."""
    await rows(dsn, "INSERT INTO inbox_messages VALUES (%s, 's', now(), NULL, 1)", an_id(1))
    async with an_inbox(broker.url, dsn, record):
        await publish(nc, [1])
        await until(lambda: is_settled(nc))
    assert (await effects(dsn), await row_of(dsn, 1)) == ([an_id(1)], (True, 2, None))


async def test_an_event_whose_row_is_lost_before_its_turn_is_handled(
    broker: Broker, nc: Client, dsn: str
) -> None:
    """As by a standby that takes over and never had it: its event was acknowledged, and no handler
    had seen it.
    """
    begun, go_on = asyncio.Event(), asyncio.Event()

    async def wait(connection: Driver, event: InboxEvent) -> None:
        begun.set()
        await go_on.wait()
        await record(connection, event)

    async with an_inbox(broker.url, dsn, wait, handler_timeout=600.0):
        await publish(nc, [0])
        await begun.wait()
        await publish(nc, [1])
        await until(lambda: row_of(dsn, 1), what="its row is there")
        await rows(dsn, "DELETE FROM inbox_messages WHERE message_id = %s", an_id(1))
        go_on.set()
        await until(lambda: is_settled(nc))
    assert (await effects(dsn), await row_of(dsn, 1)) == ([an_id(0), an_id(1)], (True, 1, None))


async def test_poison_has_its_dead_letter_before_its_row_is_marked_and_is_acknowledged(
    broker: Broker, nc: Client, dsn: str
) -> None:
    """SD-12, SD-16, SD-20: EVT-047-002 with the message in it."""
    async with an_inbox(broker.url, dsn, poison), record_acks(broker.url) as heard:
        await publish(nc, [1], {"n": 1})
        await until(lambda: "+ACK" in heard.settling(1))
    (letter,) = await read_dead_letters(nc)
    assert {
        name: letter[name] for name in ("message_id", "original_subject", "reason", "attempts")
    } == {
        "message_id": an_id(1),
        "original_subject": "vibespro.event.vibe_created.v1",
        "reason": "processing_error",
        "attempts": 1,
    }
    assert letter["message"]["payload"] == '{"n":1}'  # type: ignore[index]
    assert (await effects(dsn), await row_of(dsn, 1)) == (
        [],
        (True, 1, "processing_error: its handler said so"),
    )


async def test_the_dead_letter_of_a_message_has_an_id_and_a_subject_of_its_own(
    broker: Broker, nc: Client, dsn: str
) -> None:
    """SD-16, SD-20."""
    async with an_inbox(broker.url, dsn, poison):
        await publish(nc, [1])
        await until(lambda: is_settled(nc))
    stored = await nc.jetstream().get_msg("SEA_DLQ", seq=1)
    assert stored.subject == "sea.dlq.vibespro.event.vibe_created.v1"
    assert stored.headers is not None
    assert stored.headers["Nats-Msg-Id"] == f"dlq:sea__from_vibespro:{an_id(1)}"


async def test_what_can_never_be_told_is_a_dead_letter_and_no_row(
    broker: Broker, nc: Client, dsn: str
) -> None:
    async with an_inbox(broker.url, dsn, record):
        await nc.jetstream().publish(
            "vibespro.event.vibe_created.v1", b"no json", headers={"Nats-Msg-Id": an_id(1)}
        )
        await until(lambda: is_settled(nc))
    (letter,) = await read_dead_letters(nc)
    assert (letter["reason"], await row_of(dsn, 1)) == ("validation_failed", ())


async def test_a_failure_is_not_acknowledged_and_comes_again_by_the_ack_wait(
    broker: Broker, nc: Client, dsn: str
) -> None:
    """SD-13: not a word to the server; the second delivery succeeds."""
    async with (
        an_inbox(broker.url, dsn, failing(once=True), ack_wait=5.0),
        record_acks(broker.url) as heard,
    ):
        await publish(nc, [1])
        await until(lambda: row_of(dsn, 1), what="received")
        await until(lambda: heard.settling(1), within_s=30)
    # where the server does not see the first in time, it delivers once more
    assert set(heard.settling(1)) == {"+ACK"}
    assert (await effects(dsn), await row_of(dsn, 1)) == ([an_id(1)], (True, 2, None))


async def test_a_failure_is_naked_with_a_delay_where_that_is_set(
    broker: Broker, nc: Client, dsn: str
) -> None:
    """X12: the other way."""
    async with (
        an_inbox(broker.url, dsn, failing(once=True), nak_after=0.05),
        record_acks(broker.url) as heard,
    ):
        await publish(nc, [1])
        await until(lambda: heard.settling(1)[-1:] == ["+ACK"])
    assert heard.settling(1) == ['-NAK {"delay": 50000000}', "+ACK"]


async def test_the_last_delivery_that_fails_ends_in_the_dead_letters(
    broker: Broker, nc: Client, dsn: str
) -> None:
    """X18: we give up ourselves, so nothing is stranded."""
    async with an_inbox(broker.url, dsn, failing(), nak_after=0.05, max_deliver=2):
        await publish(nc, [1])
        await until(lambda: read_dead_letters(nc))
        await until(lambda: is_settled(nc))
    (letter,) = await read_dead_letters(nc)
    assert (letter["reason"], letter["attempts"]) == ("maxdeliver_exhausted", 2)
    assert await row_of(dsn, 1) == (True, 2, "maxdeliver_exhausted: ValueError: not today")


@pytest.mark.parametrize("how", ["raises", "poison", "refused by its database", "slow"])
async def test_one_that_does_not_succeed_takes_no_neighbour_along(
    broker: Broker, nc: Client, dsn: str, how: str
) -> None:
    """SD-36: a batch is one transaction; what undoes it is found, and the others stand, once each."""
    # on a busy machine a neighbour takes longer than 0.3 s, too, and waits for its ack wait
    timeout_s = 0.3 if how == "slow" else 20.0
    async with an_inbox(
        broker.url, dsn, odd_one(an_id(13), how), ack_wait=10.0, handler_timeout=timeout_s
    ):
        await publish(nc, range(40))
        await until(lambda: _is_all_but_one(dsn), within_s=30)
        await until(lambda: _last_error(dsn, 13))
    assert sorted(await effects(dsn)) == sorted(
        an_id(number) for number in range(40) if number != 13
    )


@pytest.mark.both_majors
async def test_two_copies_of_a_message_are_never_handled_together(
    broker: Broker, nc: Client, dsn: str
) -> None:
    """The second waits for the first one's end, and finds it processed."""
    service = SampleService()
    async with (
        a_service(service.app) as url,
        an_inbox(broker.url, dsn, url, duplicate_window=0.1, timeout_s=60.0) as running,
    ):
        await publish(nc, [1], {"seconds": 0.5})
        await until(lambda: service.calls)
        await until(lambda: _is_stored_again(nc))
        await until(lambda: is_settled(nc))
    assert service.calls == {an_id(1): 1}
    assert (running.figures.settled, running.figures.duplicates) == (2, 1)


async def test_a_slow_handler_is_kept_alive(broker: Broker, nc: Client, dsn: str) -> None:
    """T13 in small: two ack waits long, one delivery."""

    async def slow(connection: Driver, event: InboxEvent) -> None:
        await connection.execute("SELECT pg_sleep(2.2)")
        await record(connection, event)

    async with (
        an_inbox(broker.url, dsn, slow, ack_wait=1.0, handler_timeout=12.0),
        record_acks(broker.url) as heard,
    ):
        await publish(nc, [1])
        await until(lambda: "+ACK" in heard.of(1))
    assert heard.of(1).count("+WPI") >= 2
    assert await row_of(dsn, 1) == (True, 1, None)


async def test_while_dead_letters_cannot_be_stored_nothing_is_marked_or_acknowledged(
    broker: Broker, nc: Client, dsn: str
) -> None:
    """SD-16: the dead letter is stored before the ack."""
    async with an_inbox(broker.url, dsn, poison) as running, record_acks(broker.url) as heard:
        await nc.jetstream().delete_stream("SEA_DLQ")
        await publish(nc, [1])
        await until(lambda: running.inbox.consumer.health.waits_for)
        assert (await row_of(dsn, 1), "+ACK" in heard.of(1)) == ((False, 1, None), False)
        async with connected(broker.url) as connection:
            await create_streams(JetStream(connection), dead_letters_stream("sea"))
        await until(lambda: "+ACK" in heard.of(1))
    assert len(await read_dead_letters(nc)) == 1


async def test_a_second_durable_on_one_table_is_refused(broker: Broker, dsn: str) -> None:
    """SD-28, X9: it would take the first one's messages for duplicates of its own."""
    async with an_inbox(broker.url, dsn, record):
        pass
    with pytest.raises(Misconfigured, match="belongs to VIBESPRO_EVENTS/sea__from_vibespro"):
        async with an_inbox(broker.url, dsn, record, durable="another"):
            pass


async def test_the_durable_is_as_specified(broker: Broker, nc: Client, dsn: str) -> None:
    """SD-30, SD-31."""
    async with an_inbox(broker.url, dsn, record, ack_wait=120.0):
        await until(lambda: is_settled(nc))
        config = (
            await nc.jetstream().consumer_info("VIBESPRO_EVENTS", "sea__from_vibespro")
        ).config
    assert (config.filter_subject, config.ack_policy, config.ack_wait) == (
        "vibespro.event.>",
        "explicit",
        120,
    )
    assert (config.max_deliver, config.max_ack_pending) == (20, 50)


async def test_processed_is_never_before_received(broker: Broker, nc: Client, dsn: str) -> None:
    """SD-10, X11, T7: the database's clock stepped back five minutes in between."""
    await rows(
        dsn,
        "INSERT INTO inbox_messages VALUES (%s, 's', now() + interval '5 minutes', NULL, 1)",
        an_id(1),
    )
    async with an_inbox(broker.url, dsn, record):
        await publish(nc, [1])
        await until(lambda: is_settled(nc))
    assert await rows(
        dsn, "SELECT count(*) FROM inbox_messages WHERE processed_at >= received_at"
    ) == [(1,)]


async def poison(connection: Driver, event: InboxEvent) -> HandlerResult:
    await record(connection, event)
    return HandlerResult.POISON


def failing(*, once: bool = False) -> Handler:
    """It writes its effect, and raises."""
    times = 0

    async def handle(connection: Driver, event: InboxEvent) -> None:
        nonlocal times
        times += 1
        await record(connection, event)
        if not once or times == 1:
            raise ValueError("not today")

    return handle


def odd_one(message_id: str, how: str) -> Handler:
    async def handle(connection: Driver, event: InboxEvent) -> None:
        await record(connection, event)
        if event.message_id == message_id:
            if how == "raises":
                raise ValueError(how)
            if how == "poison":
                raise Poison(how)
            await connection.execute(
                "SELECT 1/0" if how.startswith("refused") else "SELECT pg_sleep(9)"
            )

    return handle


async def _is_all_but_one(dsn: str) -> bool:
    return len(await effects(dsn)) == 39


async def _last_error(dsn: str, number: int) -> object:
    row = await row_of(dsn, number)
    return row and row[2]


async def _is_stored_again(nc: Client) -> bool:
    await publish(nc, [1], {"seconds": 0.5})
    return (await nc.jetstream().stream_info("VIBESPRO_EVENTS")).state.messages > 1
