"""What the sweep tells of a work queue, on a real server: only what the server has given up."""

import asyncio
import json
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import suppress
from typing import Any

import pytest
from nats.aio.client import Client
from nats.aio.msg import Msg

from router.agents.given_up_messages import StrandedSweep
from router.agents.topology import AgentSubscription, AgentTopology, topology_of
from router.core.message import Message
from router.delivery.consume.advisories import advisory_subject
from router.delivery.wire import topology
from router.delivery.wire.api import JetStream, Json
from tests.support.broker import Broker
from tests.support.delivery import connected
from tests.support.made_anew import create_streams
from tests.support.waiting import until

QUEUE = AgentSubscription("MESHFORGE_COMMANDS", "ledger_consumer", ("cmd.default.demo.ledger.>",))
ONCE = AgentTopology(ack_wait=300.0, max_deliver=1)  # one NAK, and the server gives a message up
HOUR = b'-NAK {"delay": 3600000000000}'


class MovingJetStream(JetStream):
    """Does something before the first request of each kind: `before` has what, by the request's
    first words.
    """

    def __init__(self, *given: Any) -> None:
        super().__init__(*given)
        self.before: dict[str, Callable[[], Awaitable[object]]] = {}
        self.asked = 0

    async def ask(self, what: str, body: Json | None = None) -> Json:
        self.asked += 1
        for words, move in self.before.items():
            if what.startswith(words):
                await move()
        return await super().ask(what, body)


@pytest.fixture
def broker(own_broker: Broker) -> Broker:
    """A server for each test: what one deleted may come back to the next one while the server still
    removes it.
    """
    return own_broker


@pytest.fixture
async def jetstream(broker: Broker) -> AsyncIterator[MovingJetStream]:
    """An empty queue with its durable."""
    async with connected(broker.url) as connection:
        made = MovingJetStream(connection)
        await topology.create(made, topology_of([QUEUE], ONCE, "s-1"))
        yield made


def a_sweep(jetstream: JetStream, in_hand: frozenset[int] = frozenset()) -> StrandedSweep:
    def is_in_hand(message: Message) -> bool:
        return message.sequence in in_hand

    return StrandedSweep(QUEUE, jetstream, advisories=ONCE.advisories, is_in_hand=is_in_hand)


async def store(nc: Client) -> None:
    await nc.jetstream().publish("cmd.default.demo.ledger.book", b"{}", timeout=60)


async def take(nc: Client) -> Msg:
    """Deliver the next message."""
    return await nc.request(
        f"$JS.API.CONSUMER.MSG.NEXT.{QUEUE.stream}.{QUEUE.durable}", b"", timeout=60, old_style=True
    )


async def settle(nc: Client, delivery: Msg, ack: bytes = b"+ACK") -> None:
    await nc.request(delivery.reply, ack, timeout=60)


async def strand(nc: Client, jetstream: JetStream) -> None:
    """Let the server give a message up; its advisory is in its stream then."""
    await store(nc)
    await settle(nc, await take(nc), b"-NAK")
    await nc.request(
        f"$JS.API.CONSUMER.MSG.NEXT.{QUEUE.stream}.{QUEUE.durable}",
        b'{"batch": 1, "no_wait": true}',
        timeout=60,
        old_style=True,
    )
    await until(
        lambda: jetstream.get_last(ONCE.advisories, advisory_subject(QUEUE.stream, QUEUE.durable))
    )


async def read_told(jetstream: JetStream) -> list[int]:
    """The sequences of all advisories."""
    found, sequence = [], 0
    while (one := await jetstream.get_next(ONCE.advisories, ">", sequence + 1)) is not None:
        sequence = one.sequence
        found.append(json.loads(one.data)["stream_seq"])
    return found


async def look_often(sweep: StrandedSweep, times: int = 6) -> None:
    suspected_to = 0
    for _ in range(times):
        suspected_to = await sweep.look(suspected_to)


async def test_what_is_settled_stored_or_delivered_between_two_requests_is_not_taken_for_stranded(
    nc: Client, jetstream: MovingJetStream
) -> None:
    held: list[Msg] = []

    async def deliver() -> None:
        await store(nc)
        held.append(await take(nc))

    async def settle_one() -> None:
        await settle(nc, held.pop(0))

    for _ in range(200):
        await deliver()
    jetstream.before = {"CONSUMER.INFO": settle_one, "STREAM.INFO": deliver}
    await look_often(a_sweep(jetstream))
    jetstream.before = {}
    assert await read_told(jetstream) == []


async def test_beside_messages_that_wait_for_their_ack_only_what_was_given_up_is_told(
    nc: Client, jetstream: MovingJetStream
) -> None:
    """MF-8: one is worked on, one was sent back; only this process takes messages, so it has both
    in its hands.
    """
    await strand(nc, jetstream)
    await jetstream.ask(f"STREAM.PURGE.{ONCE.advisories}")
    await store(nc)
    await store(nc)
    await take(nc)
    await settle(nc, await take(nc), HOUR)
    await look_often(a_sweep(jetstream, frozenset({2, 3})))
    assert await read_told(jetstream) == [1]


async def test_nothing_is_told_while_a_process_that_died_may_have_had_it(
    nc: Client, jetstream: MovingJetStream
) -> None:
    """Its messages come again after the ack wait; until then which one was given up is not known."""
    await strand(nc, jetstream)
    await jetstream.ask(f"STREAM.PURGE.{ONCE.advisories}")
    await store(nc)
    await take(nc)
    await look_often(a_sweep(jetstream))
    assert await read_told(jetstream) == []


async def test_what_the_recovery_has_not_finished_is_told_no_second_time(
    nc: Client, jetstream: MovingJetStream
) -> None:
    await strand(nc, jetstream)
    assert await read_told(jetstream) == [1]
    await look_often(a_sweep(jetstream))
    assert await read_told(jetstream) == [1]


async def test_it_looks_on_when_the_broker_did_not_answer(
    nc: Client, jetstream: MovingJetStream
) -> None:
    await strand(nc, jetstream)
    await jetstream.ask(f"STREAM.DELETE.{ONCE.advisories}")
    sweeping = asyncio.create_task(a_sweep(jetstream).run(0.01))
    asked = jetstream.asked
    # it cannot publish: there is no stream for that
    await until(lambda: jetstream.asked > asked + 20)
    await create_streams(jetstream, *topology_of([QUEUE], ONCE, "s-1").streams)
    await until(lambda: read_told(jetstream))
    sweeping.cancel()
    with suppress(asyncio.CancelledError):
        await sweeping
    assert set(await read_told(jetstream)) == {1}
