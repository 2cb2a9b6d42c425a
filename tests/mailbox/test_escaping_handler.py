"""A function of the user's that raises what is no Exception: a failure of that event, and of
nothing else.
"""

import asyncio
import sys

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


@pytest.mark.parametrize("count", [1, 20], ids=["alone", "in a batch"])
async def test_a_handler_whose_helper_was_cancelled_fails_at_that_event_alone(
    broker: Broker, nc: Client, dsn: str, count: int
) -> None:
    """The inbox stood still for ever, ready, with nothing in its log."""

    async def handle(connection: Driver, event: InboxEvent) -> None:
        if event.message_id == an_id(0):
            helper = asyncio.ensure_future(asyncio.Event().wait())
            asyncio.get_running_loop().call_soon(helper.cancel)
            await helper
        await record(connection, event)

    async with an_inbox(broker.url, dsn, handle, max_deliver=2, ack_wait=0.5) as running:
        await publish(nc, range(count))
        await until(lambda: read_dead_letters(nc))
        await publish(nc, range(count, count + 5))
        await until(lambda: is_settled(nc))
        assert not running.has_ended
    assert [letter["message_id"] for letter in await read_dead_letters(nc)] == [an_id(0)]
    assert sorted(await effects(dsn)) == sorted(map(an_id, range(1, count + 5)))
    assert "HandlerExited" in str((await row_of(dsn, 0))[2])


@pytest.mark.parametrize("exc", [KeyboardInterrupt("no stock"), GeneratorExit("no stock")])
async def test_a_handler_that_raises_what_ends_a_process_fails_at_that_event_alone(
    broker: Broker, nc: Client, dsn: str, exc: BaseException
) -> None:
    async def handle(connection: Driver, event: InboxEvent) -> None:
        if event.message_id == an_id(0):
            raise exc
        await record(connection, event)

    async with an_inbox(broker.url, dsn, handle, max_deliver=1) as running:
        await publish(nc, range(3))
        await until(lambda: is_settled(nc))
        assert not running.has_ended
    assert sorted(await effects(dsn)) == [an_id(1), an_id(2)]
    assert (await row_of(dsn, 0))[
        2
    ] == f"maxdeliver_exhausted: HandlerExited: {type(exc).__name__}: no stock"


async def test_a_handler_that_exits_fails_at_that_event_alone(
    broker: Broker, nc: Client, dsn: str
) -> None:
    async def handle(connection: Driver, event: InboxEvent) -> None:
        if event.message_id == an_id(0):
            sys.exit("no stock")
        await record(connection, event)

    async with an_inbox(broker.url, dsn, handle, max_deliver=1) as running:
        await publish(nc, range(3))
        await until(lambda: is_settled(nc))
        assert not running.has_ended
    assert sorted(await effects(dsn)) == [an_id(1), an_id(2)]
    assert (await row_of(dsn, 0))[2] == "maxdeliver_exhausted: HandlerExited: SystemExit: no stock"
