"""What one event may do to the others in its inbox."""

import asyncio

import pytest
from nats.aio.client import Client

from router.mailbox.inbox import transactional_strategy
from router.mailbox.inbox.event import InboxEvent
from router.mailbox.postgres import Driver
from tests.support.broker import Broker
from tests.support.inbox import an_id, an_inbox, effects, publish, record
from tests.support.postgres import rows
from tests.support.waiting import until

HANGING = {an_id(number) for number in (0, 3, 4)}
OTHERS = sorted({an_id(number) for number in range(30)} - HANGING)


class Hanging:
    """A handler that never ends for three events, until the test lets them go."""

    def __init__(self) -> None:
        self.let_go = asyncio.Event()

    async def __call__(self, connection: Driver, event: InboxEvent) -> None:
        if event.message_id in HANGING:
            await self.let_go.wait()
        await record(connection, event)


async def others_are_handled(dsn: str) -> bool:
    return sorted(await effects(dsn)) == OTHERS


async def test_events_whose_handler_hangs_hold_up_no_other(
    dsn: str, broker: Broker, nc: Client, monkeypatch: pytest.MonkeyPatch
) -> None:
    """They ran one after the other: each that hung took its whole time, again and again, and the
    others waited for it.
    """
    # of a minute, which no part of this test takes
    monkeypatch.setattr(transactional_strategy, "SHARED_TIMEOUT_PART", 0.003)
    hanging = Hanging()
    async with an_inbox(broker.url, dsn, hanging, handler_timeout=60.0, ack_wait=60.0):
        await publish(nc, range(30))
        await until(lambda: others_are_handled(dsn), what="the others are handled")
        assert await rows(
            dsn, "SELECT count(*) FROM inbox_messages WHERE processed_at IS NULL"
        ) == [(len(HANGING),)]
        hanging.let_go.set()


async def test_an_event_that_was_begun_before_is_handled_beside_the_others(
    dsn: str, broker: Broker, nc: Client
) -> None:
    """What hung in an earlier life hangs again: the first events of this one do not wait for it at
    all.
    """
    for message_id in HANGING:
        await rows(
            dsn,
            "INSERT INTO inbox_messages (message_id, subject, attempts) VALUES (%s, 's', 1)",
            message_id,
        )
    hanging = Hanging()
    # a sixth of it: twenty seconds
    async with an_inbox(broker.url, dsn, hanging, handler_timeout=120.0, ack_wait=120.0):
        await publish(nc, range(30))
        await until(lambda: others_are_handled(dsn), what="the others are handled")
        hanging.let_go.set()
