"""Damaged messages on a real router: each of them is acked, and the next good one is served as if
nothing had been.
"""

import random

import pytest
from nats.aio.client import Client

from router.config import Settings
from router.delivery.wire.connection import Connection, head_of
from router.delivery.wire.first_connection import connect
from tests.rigs.fuzz.mutants import blind, mutant, odd_headers
from tests.support.broker import Broker
from tests.support.requests import GOOD_HEADERS, every_form
from tests.support.service import a_router, settings_for
from tests.support.stories import a_request, ask, has_acked_all, has_messages
from tests.support.waiting import until
from tests.support.workers import NOW_MS, an_ack, in_every_form

CONSUMERS = ("decide", "results", "acks")
AT_ONCE = 250


@pytest.fixture
def broker(own_broker: Broker) -> Broker:
    """A server a test: some subjects are the same in every test."""
    return own_broker


async def test_a_few_hundred_damaged_messages_leave_nothing_stuck(
    nc: Client, broker: Broker, prefix: str
) -> None:
    await _fed(nc, broker, prefix, messages=300, seed=1)


@pytest.mark.matrix
@pytest.mark.slow  # ten thousand messages
@pytest.mark.parametrize("seed", [1, 2])
async def test_ten_thousand_damaged_messages_leave_nothing_stuck(
    nc: Client, broker: Broker, prefix: str, seed: int
) -> None:
    """Issue 9: no message stuck."""
    await _fed(nc, broker, prefix, messages=10_000, seed=seed)


async def _fed(nc: Client, broker: Broker, prefix: str, *, messages: int, seed: int) -> None:
    settings = settings_for(broker.url, prefix, acks__enabled=True)
    async with a_router(settings) as router:
        connection = await connect({"servers": [broker.url]})
        rng = random.Random(seed)
        for number in range(messages):
            _send(connection, settings, rng)
            if number % AT_ONCE == AT_ONCE - 1:
                await connection.flush()
        await connection.flush()
        await connection.close()
        for consumer in CONSUMERS:
            await until(
                lambda consumer=consumer: _is_booked(nc, settings, consumer),
                within_s=300,
                what=f"{consumer} settled",
            )
        assert (await ask(nc, settings, a_request("next")))["ok"] is True
        await until(
            lambda: all(check.ok for check in router.service.readiness().values()),
            what="a router that is ready",
        )
        # it was damage, and it was told
        await until(lambda: has_messages(nc, settings.streams.dlq.name, messages / 10))


def _send(connection: Connection, settings: Settings, rng: random.Random) -> None:
    """One message for one of the consumers, its header block damaged now and then beyond what a
    header is.
    """
    subject, seeds = rng.choice(
        [
            (settings.decide.subject, list(every_form().values())),
            (settings.results.subject, list(in_every_form(timestamp=NOW_MS).values())),
            (settings.acks.subject, [an_ack()]),
        ]
    )
    seed = rng.choice(seeds)
    headers = (
        {**GOOD_HEADERS, "Nats-Msg-Id": f"m-{rng.random()}", **seed.headers}
        if rng.random() < 0.7
        else dict(seed.headers)
    )
    head = head_of(odd_headers(headers, rng))
    if head and rng.random() < 0.2:
        head = blind(head, rng)
    data = mutant(seed.data, rng)
    connection.publish_nowait(
        subject, data, rng.choice(["", "_INBOX.fuzz.1", "_INBOX.fuzz.1", "fuzz.elsewhere"]), head
    )


async def _is_booked(nc: Client, settings: Settings, consumer: str) -> bool:
    return await has_acked_all(
        nc, getattr(settings.streams, consumer).name, getattr(settings, consumer).durable
    )
