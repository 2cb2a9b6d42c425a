"""PORT-047-004 on a real durable: fetched, acknowledged, handed back."""

import asyncio
from collections.abc import AsyncIterator

import pytest
from nats.aio.client import Client

from router.config import Settings
from router.core.errors import BrokerUnavailable
from router.delivery.wire import topology
from router.delivery.wire.api import JetStream
from router.delivery.wire.first_connection import connect
from router.delivery.wire.topology import Topology
from router.mailbox.inbox.consumer import NatsJetStreamConsumer
from router.mailbox.inbox.rules import durable_of
from router.mailbox.ports import JetStreamConsumer
from tests.support.broker import Broker
from tests.support.inbox import EVENTS, an_id, is_settled, publish
from tests.support.waiting import until


@pytest.fixture
async def jetstream(broker: Broker) -> AsyncIterator[JetStream]:
    connection = await connect({"servers": [broker.url]})
    jetstream = JetStream(connection)
    await topology.create(jetstream, Topology((EVENTS,), (durable_of(Settings()),)))
    yield jetstream
    await connection.close()


def a_consumer(jetstream: JetStream, *, wait_s: float = 60.0) -> JetStreamConsumer:
    """It waits so long where fewer messages come than it fetches."""
    return NatsJetStreamConsumer(jetstream, EVENTS.name, "sea__from_vibespro", wait_s=wait_s)


async def test_what_is_acknowledged_does_not_come_again(nc: Client, jetstream: JetStream) -> None:
    """SD-24: the acknowledgement is confirmed when it returns."""
    consumer = a_consumer(jetstream)
    await publish(nc, range(3))
    fetched = await consumer.fetch(3)
    assert [message.headers["Nats-Msg-Id"] for message in fetched] == [an_id(0), an_id(1), an_id(2)]
    for message in fetched:
        await consumer.ack(message)
    assert await is_settled(nc)
    assert await a_consumer(jetstream, wait_s=0.2).fetch(10) == []


async def test_a_fetch_takes_no_more_than_it_asked_for(nc: Client, jetstream: JetStream) -> None:
    """SD-24."""
    consumer = a_consumer(jetstream)
    await publish(nc, range(3))
    assert [len(await consumer.fetch(2)), len(await consumer.fetch(1))] == [2, 1]


async def test_what_is_handed_back_comes_again(nc: Client, jetstream: JetStream) -> None:
    """SD-24."""
    consumer = a_consumer(jetstream)
    await publish(nc, [1])
    (message,) = await consumer.fetch(1)
    await consumer.nak(message)
    (again,) = await consumer.fetch(1)
    assert (again.sequence, again.deliveries) == (message.sequence, 2)


@pytest.mark.parametrize(
    "subject",
    ["CONSUMER.DELETE.VIBESPRO_EVENTS.sea__from_vibespro", "STREAM.DELETE.VIBESPRO_EVENTS"],
)
async def test_a_durable_that_is_not_there_is_told(jetstream: JetStream, subject: str) -> None:
    """An empty list at once, for ever, said that there is nothing to do."""
    await jetstream.ask(subject)
    with pytest.raises(BrokerUnavailable, match="sea__from_vibespro"):
        await a_consumer(jetstream).fetch(1)


async def test_a_durable_that_is_deleted_during_a_fetch_is_told(jetstream: JetStream) -> None:
    fetching = asyncio.create_task(a_consumer(jetstream).fetch(1))
    await until(lambda: _is_asked(jetstream))
    await jetstream.ask("CONSUMER.DELETE.VIBESPRO_EVENTS.sea__from_vibespro")
    with pytest.raises(BrokerUnavailable, match="Consumer Deleted"):
        await fetching


async def _is_asked(jetstream: JetStream) -> bool:
    info = await jetstream.consumer(EVENTS.name, "sea__from_vibespro")
    return info is not None and info["num_waiting"] == 1
