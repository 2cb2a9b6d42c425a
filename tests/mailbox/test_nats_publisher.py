"""Whose fault a refusal is, and who waits for whom; the broker is played."""

import itertools
from collections.abc import Mapping, Sequence
from typing import cast

import pytest

from router.core.clock import Clock, steady
from router.core.errors import Poison
from router.core.message import Effect
from router.core.outcome import PublishAck
from router.delivery.publish.acked_publisher import AckedPublisher, NotPublished, PublishAcks
from router.delivery.publish.atomic_publisher import (
    BATCH_HAS_DUPLICATE,
    BATCH_INCOMPLETE,
    BATCHES_NOT_ENABLED,
    AtomicPublisher,
)
from router.delivery.wire.api import JetStream
from router.delivery.wire.publish_faults import TOO_LARGE
from router.mailbox.outbox.nats_publisher import (
    NatsJetStreamPublisher,
    OutgoingMessage,
    PublishRefused,
    PublishResult,
    PublishSkipped,
    PublishUnavailable,
)
from tests.support.broker import Broker
from tests.support.mailbox import an_outbox_stream

NO_ANSWER = 0
FULL = 10077
UNHEARD_OF = 19999


class Played:
    """Batches are refused with one number, single messages with theirs, by id; all else is stored."""

    def __init__(self, refusals: Mapping[str, int], batch: int = BATCH_HAS_DUPLICATE) -> None:
        self._refusals = refusals
        self._batch = batch
        self.batches = 0
        self.sent: list[str] = []

    async def publish(self, effects: Sequence[Effect]) -> PublishAcks | NotPublished:
        self.batches += 1
        return NotPublished(effects[-1].subject, self._batch, "played")

    async def publish_and_wait(self, effects: Sequence[Effect]) -> PublishAcks | NotPublished:
        (effect,) = effects
        self.sent.append(effect.id)
        if (number := self._refusals.get(effect.id)) is not None:
            return NotPublished(effect.subject, number, "played")
        return (PublishAck(effect.id, "SEA_EVENTS", len(self.sent), False),)


def publisher(played: Played, clock: Clock = steady) -> NatsJetStreamPublisher:
    parts = cast(JetStream, None), cast(AtomicPublisher, played), cast(AckedPublisher, played)
    return NatsJetStreamPublisher(*parts, is_atomic=True, waves_s=1.5, clock=clock)


def letters(*ids: str) -> list[OutgoingMessage]:
    """`a1` is the first event of aggregate a."""
    return [
        OutgoingMessage(Effect("sea.event.order_paid.v1", b"{}", one), ("order", one[0]))
        for one in ids
    ]


def kinds(fates: Sequence[PublishResult]) -> list[type[PublishResult]]:
    return [type(fate) for fate in fates]


async def test_a_refused_event_holds_back_the_rest_of_its_aggregate_alone() -> None:
    fates = await publisher(Played({"a1": TOO_LARGE})).publish_in_order(
        letters("a1", "b1", "a2", "b2")
    )
    assert kinds(fates) == [PublishRefused, PublishAck, PublishSkipped, PublishAck]


async def test_one_by_one_an_aggregates_second_event_waits_for_its_first() -> None:
    played = Played({})
    await publisher(played).publish_in_order(letters("a1", "a2", "b1", "a3"))
    assert played.sent == ["a1", "b1", "a2", "a3"]


async def test_no_wave_begins_when_they_took_long_enough() -> None:
    """The rows' transaction idles meanwhile, and its server would end it: what is stored must be
    marked before that.
    """
    seconds = itertools.count()
    fates = await publisher(Played({}), lambda: float(next(seconds))).publish_in_order(
        letters("a1", "a2", "a3")
    )
    assert kinds(fates) == [PublishAck, PublishSkipped, PublishSkipped]


@pytest.mark.parametrize("number", [NO_ANSWER, FULL])
async def test_what_the_broker_has_no_room_or_no_answer_for_is_never_the_events_fault(
    number: int,
) -> None:
    """Not even if others were stored beside it: the broker may have gone away between the two."""
    fates = await publisher(Played({"a1": number})).publish_in_order(letters("a1", "b1", "a2"))
    assert kinds(fates) == [PublishUnavailable, PublishAck, PublishSkipped]


async def test_an_unknown_refusal_is_the_events_own_if_others_were_stored_beside_it() -> None:
    fates = await publisher(Played({"a1": UNHEARD_OF})).publish_in_order(letters("a1", "b1"))
    assert kinds(fates) == [PublishRefused, PublishAck]


async def test_an_unknown_refusal_of_everything_is_the_brokers() -> None:
    fates = await publisher(Played({"a1": UNHEARD_OF, "b1": UNHEARD_OF})).publish_in_order(
        letters("a1", "b1")
    )
    assert kinds(fates) == [PublishUnavailable, PublishUnavailable]


@pytest.mark.parametrize("number", [NO_ANSWER, FULL])
async def test_a_batch_that_the_broker_could_not_store_is_not_tried_one_by_one(number: int) -> None:
    played = Played({}, batch=number)
    assert kinds(await publisher(played).publish_in_order(letters("a1", "b1"))) == [
        PublishUnavailable,
        PublishUnavailable,
    ]
    assert played.sent == []


async def test_a_stream_without_batches_is_asked_for_one_only_once() -> None:
    played = Played({}, batch=BATCHES_NOT_ENABLED)
    one = publisher(played)
    for _ in range(2):
        assert kinds(await one.publish_in_order(letters("a1", "b1"))) == [PublishAck, PublishAck]
    assert played.batches == 1


async def test_a_refused_batch_does_not_end_batches() -> None:
    played = Played({}, batch=BATCH_INCOMPLETE)
    one = publisher(played)
    for _ in range(2):
        await one.publish_in_order(letters("a1", "b1"))
    assert played.batches == 2


@pytest.mark.parametrize("headers", [{}, {"nats-msg-id": "e-1"}, {"Nats-Msg-Id": ""}])
async def test_the_port_stores_nothing_without_an_id(
    broker: Broker, headers: dict[str, str]
) -> None:
    async with an_outbox_stream(broker) as place:
        one = NatsJetStreamPublisher(
            place.jetstream,
            cast(AtomicPublisher, None),
            cast(AckedPublisher, None),
            is_atomic=False,
        )
        with pytest.raises(Poison, match="Nats-Msg-Id"):
            await one.publish("sea.event.order_paid.v1", b"{}", headers)
        stream = await place.jetstream.stream("SEA_EVENTS")
    assert stream is not None
    assert stream["state"]["messages"] == 0


async def test_the_port_publishes_one_message_and_tells_where_it_stands(broker: Broker) -> None:
    """SD-23, SD-6."""
    async with an_outbox_stream(broker) as place:
        one = NatsJetStreamPublisher(
            place.jetstream,
            cast(AtomicPublisher, None),
            cast(AckedPublisher, None),
            is_atomic=False,
        )
        for is_duplicate in (False, True):
            publish_ack = await one.publish(
                "sea.event.order_paid.v1", b"{}", {"Nats-Msg-Id": "e-1"}
            )
            assert publish_ack == PublishAck("e-1", "SEA_EVENTS", 1, is_duplicate)
