import asyncio
from collections.abc import AsyncIterator, Sequence

import pytest
from msgspec.structs import replace

from router.core.errors import BrokerUnavailable
from router.core.ids import key
from router.core.message import Effect, Message
from router.delivery.consume.attempts import (
    NO_ATTEMPT,
    AttemptCounter,
    AttemptRecord,
    Tried,
)
from router.delivery.consume.outages import Outages, PauseSwitch
from router.delivery.consume.redeliveries import RedeliveryTracker
from router.delivery.publish.acked_publisher import (
    AckedPublisher,
    NotPublished,
    PublishAcks,
    PublishCallback,
)
from router.delivery.wire.connection import Connection
from tests.support.delivery import WorkStreams, a_delivery, a_subscription
from tests.support.waiting import until


@pytest.fixture
async def publisher(place: WorkStreams) -> AsyncIterator[AckedPublisher]:
    publisher = AckedPublisher(place.jetstream, timeout_s=60.0)
    await publisher.open()
    yield publisher
    await publisher.close()


@pytest.fixture
async def counter(place: WorkStreams, publisher: AckedPublisher) -> AttemptCounter:
    return AttemptCounter(place.jetstream, publisher, place.bucket)


FIRST, AGAIN = a_delivery(deliveries=1), a_delivery(deliveries=2)
MOST = 3


@pytest.fixture
async def other(place: WorkStreams, publisher: AckedPublisher) -> AttemptCounter:
    """Another process' view of the same bucket."""
    return AttemptCounter(place.jetstream, publisher, place.bucket)


async def read_record(counter: AttemptCounter, message: Message) -> AttemptRecord | None:
    record = await counter._find(message, NO_ATTEMPT)
    return record if record.writer else None


async def attempts(counter: AttemptCounter, message: Message = AGAIN) -> int | None:
    record = await read_record(counter, message)
    return record.attempts if record is not None else None


async def test_a_redelivery_of_which_nothing_is_known_counts_the_first_delivery_as_an_attempt(
    counter: AttemptCounter,
) -> None:
    assert await read_record(counter, AGAIN) is None
    counted, may_begin = await counter.count_begin(a_delivery(deliveries=9), None, MOST)
    assert (counted.attempts, counted.is_first_assumed, counted.is_recorded, may_begin) == (
        2,
        True,
        False,
        True,
    )


async def test_every_process_counts_on_from_what_the_others_wrote(
    counter: AttemptCounter, other: AttemptCounter
) -> None:
    """The memory of what one wrote itself saves a look, and never decides."""
    failed = await counter.count_failure(FIRST)
    remembered = AttemptRecord(failed.attempts, failed.revision, was_begun=True)
    second, _ = await other.count_begin(AGAIN, None, MOST)
    third, may_begin = await counter.count_begin(a_delivery(deliveries=3), remembered, MOST)
    assert (failed.attempts, second.attempts, third.attempts, may_begin) == (1, 2, 3, True)
    assert (failed.is_recorded, second.is_recorded, third.is_recorded) == (False, True, True)


async def tried(counter: AttemptCounter, message: Message, record: AttemptRecord | None) -> Tried:
    """What one write comes to; no record: of a first delivery that failed."""
    future: asyncio.Future[Tried] = asyncio.get_running_loop().create_future()
    writer = counter.name_writer(message)
    if record is None:
        counter.try_failure(message, writer, future.set_result)
    else:
        counter.try_begin(message, record, writer, future.set_result)
    return await future


def remembered(message: Tried) -> AttemptRecord:
    """As the process that wrote it does."""
    assert isinstance(message, Message)
    return AttemptRecord(message.attempts, message.revision, was_begun=True)


async def test_one_write_counts_as_the_careful_way_does(counter: AttemptCounter) -> None:
    failed = await tried(counter, FIRST, None)
    second = await tried(counter, AGAIN, remembered(failed))
    assert await attempts(counter) == 2
    other = a_delivery(7)
    careful = await counter.count_failure(other)
    again = a_delivery(7, deliveries=2)
    begun, _ = await counter.count_begin(again, remembered(careful), MOST)
    assert isinstance(failed, Message)
    assert isinstance(second, Message)
    assert [(m.attempts, m.is_recorded, m.is_first_assumed) for m in (failed, second)] == [
        (m.attempts, m.is_recorded, m.is_first_assumed) for m in (careful, begun)
    ]


async def test_one_write_counts_nothing_where_another_process_wrote_first(
    counter: AttemptCounter, other: AttemptCounter
) -> None:
    failed = await tried(counter, FIRST, None)
    await other.count_begin(AGAIN, None, MOST)
    assert await tried(counter, FIRST, None) is None
    assert await tried(counter, a_delivery(deliveries=3), remembered(failed)) is None
    assert await attempts(counter) == 2


async def test_one_write_says_why_an_attempt_cannot_be_recorded(
    place: WorkStreams, publisher: AckedPublisher
) -> None:
    counter = AttemptCounter(place.jetstream, publisher, "NO_SUCH_BUCKET")
    assert isinstance(await tried(counter, FIRST, None), BrokerUnavailable)


async def test_what_has_had_its_attempts_is_not_begun_again_and_nothing_is_written(
    counter: AttemptCounter, other: AttemptCounter
) -> None:
    await counter.count_failure(FIRST)
    for deliveries in (2, 3):
        await other.count_begin(a_delivery(deliveries=deliveries), None, MOST)
    counted, may_begin = await counter.count_begin(a_delivery(deliveries=4), None, MOST)
    assert (counted.attempts, may_begin, await attempts(other)) == (3, False, 3)


async def test_two_that_begin_the_same_delivery_at_once_have_two_numbers(
    counter: AttemptCounter, other: AttemptCounter
) -> None:
    (one, _), (two, _) = await asyncio.gather(
        *(each.count_begin(AGAIN, None, MOST) for each in (counter, other))
    )
    assert {one.attempts, two.attempts} == {2, 3}


async def test_a_count_that_is_tried_again_after_its_publish_ack_was_lost_counts_once(
    counter: AttemptCounter,
) -> None:
    assert (await counter.count_begin(AGAIN, None, MOST))[0].attempts == 2
    counted, may_begin = await counter.count_begin(AGAIN, None, MOST)
    assert (counted.attempts, counted.is_recorded, may_begin) == (2, False, True)
    for _ in range(2):
        third, _ = await counter.count_begin(a_delivery(deliveries=3), None, MOST)
        assert (third.attempts, third.is_recorded) == (3, True)
        failed = await counter.count_failure(a_delivery(7))
        assert (failed.attempts, failed.is_recorded) == (1, False)


class ForgetfulPublisher:
    """What it stores first gets no publish ack: the server dies that had it, and the connection
    comes back at another one.
    """

    def __init__(self, publisher: AckedPublisher, connection: Connection) -> None:
        self._publisher = publisher
        self._connection = connection
        self._is_first = True

    async def publish_and_wait(self, effects: Sequence[Effect]) -> PublishAcks | NotPublished:
        stored = await self._publisher.publish_and_wait(effects)
        if not self._is_first:
            return stored
        self._is_first = False
        self._connection.stats["reconnects"] += 1
        return NotPublished(effects[0].subject, 0, "no publish ack in time")

    def publish_one(self, effect: Effect, callback: PublishCallback) -> None:
        def tell(stored: PublishAcks | NotPublished) -> None:
            self._connection.stats["reconnects"] += 1
            callback(NotPublished(effect.subject, 0, f"no publish ack in time: {stored}"))

        self._publisher.publish_one(effect, tell)


@pytest.fixture
def tracker(place: WorkStreams, publisher: AckedPublisher) -> RedeliveryTracker:
    """One that tries again while an attempt cannot be recorded."""
    subscription, forgetful = (
        a_subscription(store_retry=0.01),
        ForgetfulPublisher(publisher, place.connection),
    )
    counter = AttemptCounter(place.jetstream, forgetful, place.bucket)  # type: ignore[arg-type]
    return RedeliveryTracker(
        subscription, place.connection, counter, Outages(subscription, PauseSwitch(lambda _: None))
    )


async def test_a_count_whose_publish_ack_was_lost_with_its_server_counts_once(
    tracker: RedeliveryTracker,
) -> None:
    """Counted for each server that is tried, three lost servers would make a dead letter of a
    healthy message.
    """
    counted, may_begin = await tracker.count_begin(AGAIN, None)
    assert (counted.attempts, may_begin) == (2, True)


async def test_a_failure_whose_publish_ack_was_lost_with_its_server_counts_once(
    tracker: RedeliveryTracker,
) -> None:
    assert (await tracker.count_failure(FIRST)).attempts == 1


@pytest.mark.parametrize("is_first", [True, False])
async def test_one_write_whose_publish_ack_was_lost_with_its_server_counts_once(
    tracker: RedeliveryTracker, counter: AttemptCounter, is_first: bool
) -> None:
    """What goes on after it knows its own record by the writer that it is given."""
    told: asyncio.Future[Message | None] = asyncio.get_running_loop().create_future()
    message = FIRST if is_first else AGAIN
    writer = tracker.name_writer(message)
    if is_first:
        tracker.try_failure(message, writer, told.set_result)
    else:
        tracker.try_begin(message, NO_ATTEMPT, writer, told.set_result)
    assert await told is None
    assert await attempts(counter, message) == 1
    if is_first:
        counted = await tracker.count_failure(message, writer)
    else:
        counted, _ = await tracker.count_begin(message, None, writer)
    assert (counted.attempts, await attempts(counter, message)) == (1, 1)
    assert not tracker.is_unavailable


async def test_a_failure_that_was_counted_when_the_message_came_again_is_not_counted_twice(
    counter: AttemptCounter, other: AttemptCounter
) -> None:
    """A process that stood still longer than the ack wait fails its first delivery after another
    one has begun the second.
    """
    assert (await other.count_begin(AGAIN, None, MOST))[0].attempts == 2
    late = await counter.count_failure(FIRST)
    assert (late.attempts, late.is_recorded, await attempts(counter)) == (1, True, 2)


async def test_a_first_delivery_whose_count_the_server_forgot_is_one_attempt_more(
    counter: AttemptCounter, other: AttemptCounter
) -> None:
    await counter.count_failure(FIRST)
    for _ in range(2):  # also where its publish ack is lost
        again = await other.count_failure(FIRST)
        assert (again.attempts, again.is_recorded) == (2, True)


async def test_a_first_delivery_that_is_handed_back_unread_spends_nothing(
    counter: AttemptCounter, other: AttemptCounter
) -> None:
    counter.give_back(FIRST, was_begun=False)
    await until(lambda: read_record(counter, FIRST))
    counted, _ = await other.count_begin(AGAIN, None, 1)
    assert (counted.attempts, counted.is_first_assumed, counted.is_recorded) == (1, False, False)


async def test_with_one_attempt_allowed_a_counted_one_is_all_and_an_assumed_one_is_not(
    counter: AttemptCounter,
) -> None:
    await counter.count_failure(FIRST)
    assert not (await counter.count_begin(AGAIN, None, 1))[1]
    assert (await counter.count_begin(a_delivery(2, deliveries=2), None, 1))[1]


async def test_records_are_of_one_stream_one_consumer_one_message(counter: AttemptCounter) -> None:
    await counter.count_failure(FIRST)
    others = [
        replace(FIRST, stream="T"),
        replace(FIRST, consumer="D"),
        replace(FIRST, sequence=2),
        replace(FIRST, stored_ns=5),
    ]
    assert [await read_record(counter, other) for other in others] == [None] * 4


async def test_names_that_are_no_keys_do_not_meet(counter: AttemptCounter) -> None:
    await counter.count_failure(replace(FIRST, stream="a.b", consumer="c"))
    assert await read_record(counter, replace(FIRST, stream="a", consumer="b.c")) is None


async def test_an_attempt_that_is_not_to_count_is_taken_back(counter: AttemptCounter) -> None:
    await counter.count_failure(FIRST)
    second, _ = await counter.count_begin(AGAIN, None, MOST)
    counter.give_back(second, was_begun=True)

    async def is_taken_back() -> bool:
        return await attempts(counter) == 1

    await until(is_taken_back)


async def test_an_attempt_is_not_taken_back_from_a_process_that_has_counted_since(
    counter: AttemptCounter, other: AttemptCounter
) -> None:
    second, _ = await counter.count_begin(AGAIN, None, MOST)
    await other.count_begin(a_delivery(deliveries=3), None, MOST)
    counter.give_back(second, was_begun=True)
    # over the same connection, later: the other one was answered
    await counter.count_failure(a_delivery(2))
    assert await attempts(counter) == 3


async def test_a_settled_message_is_forgotten_and_counts_anew(counter: AttemptCounter) -> None:
    await counter.count_begin(AGAIN, None, MOST)
    counter.forget(AGAIN)

    async def is_forgotten() -> bool:
        return await read_record(counter, AGAIN) is None

    await until(is_forgotten)
    assert (await counter.count_begin(a_delivery(deliveries=3), None, MOST))[0].attempts == 2


@pytest.mark.parametrize("text", [b"", b"x", b"-1", b"9" * 40, b"1 2"])
async def test_an_entry_that_is_no_record_is_none(
    place: WorkStreams, counter: AttemptCounter, text: bytes
) -> None:
    subject = f"$KV.{place.bucket}.{key(FIRST.stream, FIRST.consumer, str(FIRST.sequence), str(FIRST.stored_ns))}"
    await place.jetstream.publish(subject, text, {})
    counted, may_begin = await counter.count_begin(AGAIN, None, 10**12)
    assert (counted.attempts >= 2, may_begin) == (True, True)


async def test_a_count_that_cannot_be_stored_is_said(
    place: WorkStreams, publisher: AckedPublisher
) -> None:
    with pytest.raises(BrokerUnavailable, match="an attempt cannot be recorded"):
        await AttemptCounter(place.jetstream, publisher, "NO_SUCH_BUCKET").count_failure(FIRST)
