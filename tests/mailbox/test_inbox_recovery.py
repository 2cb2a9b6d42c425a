"""Messages that the server delivers no more: the recovery gets an advisory, and the stale row scan
finds those without one.
"""

import asyncio
from collections.abc import Mapping

import pytest
from nats.aio.client import Client

from router.delivery.consume.advisories import ADVISORY_STREAM as ADVISORIES
from router.delivery.wire.api import JetStream
from router.mailbox.inbox.event import InboxEvent
from router.mailbox.postgres import Driver
from tests.support.broker import Broker
from tests.support.delivery import connected
from tests.support.inbox import (
    EVENTS,
    an_id,
    an_inbox,
    count_unprocessed,
    effects,
    give_up_on,
    publish,
    read_dead_letters,
    record,
    row_of,
)
from tests.support.made_anew import create_streams
from tests.support.postgres import rows
from tests.support.waiting import until

OFTEN: Mapping[str, object] = {"sweep_ms": 50, "stranded_after_ms": 0}
RECEIVED = (
    "INSERT INTO inbox_messages VALUES (%s, 'vibespro.event.vibe_created.v1', now() - interval "
    "'1 hour', NULL, 2)"
)


async def _stranded(
    broker: Broker, nc: Client, dsn: str, count: int, begun: int | None = None
) -> None:
    """An inbox was here; its process died twice with each message, and twice is as often as the
    server delivers them.

    So often it began each of the first `begun`, all of them if None; the others it only held.
    """
    async with an_inbox(broker.url, dsn, record, max_deliver=2, ack_wait=0.2):
        await until(lambda: _has_durable(nc))
    await publish(nc, range(count))
    await give_up_on(broker.url, count, 2)
    for number in range(count if begun is None else begun):
        await rows(dsn, RECEIVED, an_id(number))


async def test_what_the_server_stopped_delivering_has_its_dead_letter(
    broker: Broker, nc: Client, dsn: str
) -> None:
    """SD-20, X18: its body in it, its row marked, nothing left behind."""
    await _stranded(broker, nc, dsn, 3)
    async with an_inbox(broker.url, dsn, record, max_deliver=2, ack_wait=0.2):
        await until(lambda: _dead_letters(nc, 3))
        await until(lambda: _is_marked(dsn, 0))
    found = await read_dead_letters(nc)
    assert sorted(str(letter["message_id"]) for letter in found) == [an_id(0), an_id(1), an_id(2)]
    assert {(letter["reason"], letter["attempts"]) for letter in found} == {
        ("maxdeliver_exhausted", 2)
    }
    assert await effects(dsn) == []


async def test_what_no_process_began_as_often_as_allowed_is_given_to_the_handler(
    broker: Broker, nc: Client, dsn: str
) -> None:
    """X18: a delivery is no attempt. What a process holds when another message kills it had a dead
    letter without having been tried.
    """
    await _stranded(broker, nc, dsn, 3, begun=1)
    await rows(dsn, "INSERT INTO inbox_messages VALUES (%s, 's', now(), NULL, 1)", an_id(1))
    async with an_inbox(broker.url, dsn, record, max_deliver=2, ack_wait=0.2):
        await until(lambda: _is_marked(dsn, 2))
        await until(lambda: _net_is_done(nc))
    assert [letter["message_id"] for letter in await read_dead_letters(nc)] == [an_id(0)]
    assert sorted(map(str, await effects(dsn))) == [an_id(1), an_id(2)]
    assert (await row_of(dsn, 1), await row_of(dsn, 2)) == ((True, 2, None), (True, 1, None))


async def test_one_whose_acknowledgement_alone_was_lost_has_no_dead_letter(
    broker: Broker, nc: Client, dsn: str
) -> None:
    """Its effect stands."""
    await _stranded(broker, nc, dsn, 2)
    await rows(
        dsn, "UPDATE inbox_messages SET processed_at = now() WHERE message_id = %s", an_id(0)
    )
    async with an_inbox(broker.url, dsn, record, max_deliver=2, ack_wait=0.2):
        await until(lambda: _dead_letters(nc, 1))
        await until(lambda: _net_is_done(nc))
    assert [letter["message_id"] for letter in await read_dead_letters(nc)] == [an_id(1)]


async def test_what_was_given_up_in_an_earlier_stream_says_nothing_of_the_new_one(
    broker: Broker, nc: Client, dsn: str
) -> None:
    """X18: an advisory names a sequence alone; in the new stream another event has it, and that one
    was not given up.
    """
    await _stranded(broker, nc, dsn, 1, begun=0)
    await nc.jetstream().delete_stream(EVENTS.name)
    async with connected(broker.url) as connection:
        await create_streams(JetStream(connection), EVENTS)
    await publish(nc, [5])

    async def wait(connection: Driver, event: InboxEvent) -> None:
        await until(lambda: _net_is_done(nc))
        await record(connection, event)

    async with an_inbox(broker.url, dsn, wait, max_deliver=2, handler_timeout=20.0, ack_wait=20.0):
        await until(lambda: _is_marked(dsn, 5))
    assert (await read_dead_letters(nc), await effects(dsn)) == ([], [an_id(5)])


@pytest.mark.both_majors
async def test_the_sweep_finds_what_no_advisory_told_of(
    broker: Broker, nc: Client, dsn: str
) -> None:
    """X18."""
    await _stranded(broker, nc, dsn, 2, begun=1)
    await nc.jetstream().purge_stream(ADVISORIES)
    async with an_inbox(broker.url, dsn, record, max_deliver=2, ack_wait=0.2, scan=OFTEN):
        await until(lambda: _is_marked(dsn, 0))
    (letter,) = await read_dead_letters(nc)
    assert (letter["message_id"], letter["reason"]) == (an_id(0), "maxdeliver_exhausted")
    assert letter["message"]["payload"] == '{"hello":"world"}'  # type: ignore[index]


async def test_a_row_whose_message_is_gone_has_a_dead_letter_that_says_so(
    broker: Broker, nc: Client, dsn: str
) -> None:
    await rows(dsn, RECEIVED, an_id(7))
    async with an_inbox(broker.url, dsn, record, scan=OFTEN):
        await until(lambda: _is_marked(dsn, 7))
    (letter,) = await read_dead_letters(nc)
    assert (letter["message_id"], letter["original_subject"]) == (
        an_id(7),
        "vibespro.event.vibe_created.v1",
    )
    assert "message" not in letter
    assert (await row_of(dsn, 7))[
        2
    ] == "maxdeliver_exhausted: never settled, and its stream does not hold it any more"


async def test_the_sweep_leaves_alone_what_is_still_on_its_way(
    broker: Broker, nc: Client, dsn: str
) -> None:
    begun, go_on = asyncio.Event(), asyncio.Event()

    async def wait(connection: Driver, event: InboxEvent) -> None:
        begun.set()
        await go_on.wait()
        await record(connection, event)

    async with an_inbox(broker.url, dsn, wait, handler_timeout=20.0, ack_wait=20.0) as running:
        await publish(nc, [1])
        await begun.wait()
        sweep = running.sweep(**OFTEN)
        assert await sweep.scan() == 0
        go_on.set()
        await until(lambda: _is_marked(dsn, 1))
        assert await sweep.scan() == 0
    assert (await read_dead_letters(nc), await effects(dsn), await count_unprocessed(dsn)) == (
        [],
        [an_id(1)],
        0,
    )


async def _has_durable(nc: Client) -> bool:
    return any(
        info.name == "sea__from_vibespro"
        for info in await nc.jetstream().consumers_info("VIBESPRO_EVENTS")
    )


async def _dead_letters(nc: Client, count: int) -> bool:
    return len(await read_dead_letters(nc)) == count


async def _net_is_done(nc: Client) -> bool:
    info = await nc.jetstream().consumer_info(ADVISORIES, "sea__from_vibespro__net")
    return info.num_pending == 0 and info.num_ack_pending == 0


async def _is_marked(dsn: str, number: int) -> bool:
    row = await row_of(dsn, number)
    return bool(row and row[0])
