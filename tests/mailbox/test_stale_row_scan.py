"""What a scan for stale rows reads of the stream, and what it keeps in memory: what it decides is
in `test_inbox_recovery`.
"""

import asyncio
import tracemalloc
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager

import orjson
from nats.aio.client import Client
from nats.aio.msg import Msg

from router.mailbox.inbox.event import InboxEvent
from router.mailbox.postgres import Driver
from tests.support.broker import Broker
from tests.support.inbox import (
    EVENTS,
    SUBJECT,
    an_id,
    an_inbox,
    is_settled,
    publish,
    read_dead_letters,
    record,
    row_of,
)
from tests.support.postgres import rows
from tests.support.waiting import until

AT_ONCE: Mapping[str, object] = {"stranded_after_ms": 0}
RECEIVED = "INSERT INTO inbox_messages VALUES (%s, %s, now() - interval '1 hour', NULL, 2)"
MANY = 20_000
MOST = 3_000_000  # bytes: more than two pages of heads, and less than the ids of all of them


class Waiting:
    """A handler that keeps its first event in hand until it is let go."""

    def __init__(self) -> None:
        self.begun, self.let_go = asyncio.Event(), asyncio.Event()

    async def __call__(self, connection: Driver, event: InboxEvent) -> None:
        self.begun.set()
        await self.let_go.wait()
        await record(connection, event)


@asynccontextmanager
async def starts_of_reads(nc: Client) -> AsyncIterator[list[int]]:
    """The sequences at which readers of the stream begin."""
    starts: list[int] = []

    async def hear(msg: Msg) -> None:
        if ".read-" in msg.subject:
            starts.append(orjson.loads(msg.data)["config"]["opt_start_seq"])

    heard = await nc.subscribe(f"$JS.API.CONSUMER.CREATE.{EVENTS.name}.*", cb=hear)
    await nc.flush()
    yield starts
    await heard.unsubscribe()


async def test_a_row_whose_event_is_in_hand_makes_the_scan_read_nothing(
    broker: Broker, nc: Client, dsn: str
) -> None:
    """All of its subject was read, every minute for as long as its service was away."""
    handler = Waiting()
    async with (
        an_inbox(broker.url, dsn, handler, handler_timeout=600.0, ack_wait=60.0) as running,
        starts_of_reads(nc) as starts,
    ):
        await publish(nc, [1])
        await handler.begun.wait()
        assert await running.sweep(**AT_ONCE).scan() == 0
        await nc.flush()
        assert starts == []
        handler.let_go.set()


async def test_a_row_whose_event_is_still_delivered_makes_the_scan_read_nothing_of_what_was_settled(
    broker: Broker, nc: Client, dsn: str
) -> None:
    """Another process has it: it stands behind all that was settled."""
    handler = Waiting()
    async with an_inbox(broker.url, dsn, record):
        await publish(nc, range(5))
        await until(lambda: is_settled(nc))
    async with (
        an_inbox(broker.url, dsn, handler, handler_timeout=600.0, ack_wait=60.0) as running,
        starts_of_reads(nc) as starts,
    ):
        await publish(nc, [5])
        await handler.begun.wait()
        await publish(nc, [6])
        await until(lambda: row_of(dsn, 6), what="its row is there")
        scan = running.sweep(**AT_ONCE)
        scan._recovery.is_in_hand = lambda _: False  # another process
        assert await scan.scan() == 0
        await until(lambda: starts, what="a read was heard of")
        assert starts == [6]
        handler.let_go.set()


async def test_a_scan_keeps_the_sequences_of_its_rows_alone(
    broker: Broker, nc: Client, dsn: str
) -> None:
    """A row that was an hour old made it hold the ids of all messages on its subject."""
    handler = Waiting()
    async with an_inbox(broker.url, dsn, handler, handler_timeout=600.0, ack_wait=60.0) as running:
        for start in range(0, MANY, 1000):
            await publish(nc, range(start, start + 1000))
        await handler.begun.wait()
        await rows(dsn, RECEIVED, an_id(MANY), SUBJECT)
        scan = running.sweep(stranded_after_ms=1_800_000)
        tracemalloc.start()
        try:
            assert await scan.scan() == 1
            _, most = tracemalloc.get_traced_memory()
        finally:
            tracemalloc.stop()
        handler.let_go.set()
    assert most < MOST
    assert [letter["message_id"] for letter in await read_dead_letters(nc)] == [an_id(MANY)]
    assert (await row_of(dsn, MANY))[0]
