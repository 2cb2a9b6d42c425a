import asyncio
from collections.abc import AsyncIterator

import pytest
from msgspec.structs import replace

from router.delivery.acked_publisher import AckedPublisher
from router.delivery.attempts import AttemptCounter, AttemptRecord
from router.errors import BrokerUnavailable
from router.ids import key
from router.message import Message
from tests.support.delivery import Place, a_delivery, a_place
from tests.support.waiting import until


@pytest.fixture
async def place(nats_url: str, prefix: str) -> AsyncIterator[Place]:
    async with a_place(nats_url, prefix) as place:
        yield place


@pytest.fixture
async def evidence(place: Place) -> AsyncIterator[AckedPublisher]:
    evidence = AckedPublisher(place.jetstream, timeout_s=1.0)
    await evidence.open()
    yield evidence
    await evidence.close()


@pytest.fixture
async def starts(place: Place, evidence: AckedPublisher) -> AttemptCounter:
    return AttemptCounter(place.jetstream, evidence, place.bucket)


FIRST, AGAIN = a_delivery(deliveries=1), a_delivery(deliveries=2)
MOST = 3


@pytest.fixture
async def other(place: Place, evidence: AckedPublisher) -> AttemptCounter:
    """Another process' view of the same bucket."""
    return AttemptCounter(place.jetstream, evidence, place.bucket)


async def attempts(starts: AttemptCounter, message: Message = AGAIN) -> int | None:
    record = await starts.record_of(message)
    return record.attempts if record is not None else None


async def test_a_redelivery_of_which_nothing_is_known_counts_the_first_delivery_as_an_attempt(starts: AttemptCounter) -> None:
    assert await starts.record_of(AGAIN) is None
    counted, may_begin = await starts.count_begin(a_delivery(deliveries=9), None, MOST)
    assert (counted.starts, counted.is_first_assumed, counted.is_recorded, may_begin) == (2, True, False, True)


async def test_every_process_counts_on_from_what_the_others_wrote(starts: AttemptCounter, other: AttemptCounter) -> None:
    """The memory of what one wrote itself saves a look, and never decides."""
    failed = await starts.count_failure(FIRST)
    remembered = AttemptRecord(failed.starts, failed.revision, was_begun=True)
    second, _ = await other.count_begin(AGAIN, None, MOST)
    third, may_begin = await starts.count_begin(a_delivery(deliveries=3), remembered, MOST)
    assert (failed.starts, second.starts, third.starts, may_begin) == (1, 2, 3, True)
    assert (failed.is_recorded, second.is_recorded, third.is_recorded) == (False, True, True)


async def test_what_has_had_its_attempts_is_not_begun_again_and_nothing_is_written(starts: AttemptCounter, other: AttemptCounter) -> None:
    await starts.count_failure(FIRST)
    for deliveries in (2, 3):
        await other.count_begin(a_delivery(deliveries=deliveries), None, MOST)
    counted, may_begin = await starts.count_begin(a_delivery(deliveries=4), None, MOST)
    assert (counted.starts, may_begin, await attempts(other)) == (3, False, 3)


async def test_two_that_begin_the_same_delivery_at_once_have_two_numbers(starts: AttemptCounter, other: AttemptCounter) -> None:
    (one, _), (two, _) = await asyncio.gather(*(each.count_begin(AGAIN, None, MOST) for each in (starts, other)))
    assert {one.starts, two.starts} == {2, 3}


async def test_a_count_that_is_tried_again_after_its_publish_ack_was_lost_counts_once(starts: AttemptCounter) -> None:
    assert (await starts.count_begin(AGAIN, None, MOST))[0].starts == 2
    counted, may_begin = await starts.count_begin(AGAIN, None, MOST)
    assert (counted.starts, may_begin) == (2, True)
    assert (await starts.count_failure(a_delivery(7))).starts == (await starts.count_failure(a_delivery(7))).starts == 1


async def test_a_failure_that_was_counted_when_the_message_came_again_is_not_counted_twice(
    starts: AttemptCounter, other: AttemptCounter
) -> None:
    """A process that stood still longer than the ack wait fails its first delivery after another one has begun the second."""
    assert (await other.count_begin(AGAIN, None, MOST))[0].starts == 2
    late = await starts.count_failure(FIRST)
    assert (late.starts, late.is_recorded, await attempts(starts)) == (1, True, 2)


async def test_a_first_delivery_whose_count_the_server_forgot_is_one_attempt_more(starts: AttemptCounter, other: AttemptCounter) -> None:
    await starts.count_failure(FIRST)
    assert (await other.count_failure(FIRST)).starts == 2


async def test_a_first_delivery_that_is_handed_back_unread_spends_nothing(starts: AttemptCounter, other: AttemptCounter) -> None:
    starts.give_back(FIRST)
    await until(lambda: starts.record_of(FIRST))
    counted, _ = await other.count_begin(AGAIN, None, 1)
    assert (counted.starts, counted.is_first_assumed, counted.is_recorded) == (1, False, False)


async def test_with_one_attempt_allowed_a_counted_one_is_all_and_an_assumed_one_is_not(starts: AttemptCounter) -> None:
    await starts.count_failure(FIRST)
    assert not (await starts.count_begin(AGAIN, None, 1))[1]
    assert (await starts.count_begin(a_delivery(2, deliveries=2), None, 1))[1]


async def test_records_are_of_one_stream_one_consumer_one_message(starts: AttemptCounter) -> None:
    await starts.count_failure(FIRST)
    others = [replace(FIRST, stream="T"), replace(FIRST, consumer="D"), replace(FIRST, sequence=2), replace(FIRST, stored_ns=5)]
    assert [await starts.record_of(other) for other in others] == [None] * 4


async def test_names_that_are_no_keys_do_not_meet(starts: AttemptCounter) -> None:
    await starts.count_failure(replace(FIRST, stream="a.b", consumer="c"))
    assert await starts.record_of(replace(FIRST, stream="a", consumer="b.c")) is None


async def test_an_attempt_that_is_not_to_count_is_taken_back(starts: AttemptCounter) -> None:
    await starts.count_failure(FIRST)
    second, _ = await starts.count_begin(AGAIN, None, MOST)
    starts.give_back(second, was_begun=True)

    async def is_taken_back() -> bool:
        return await attempts(starts) == 1

    await until(is_taken_back)


async def test_an_attempt_is_not_taken_back_from_whoever_has_counted_since(starts: AttemptCounter, other: AttemptCounter) -> None:
    second, _ = await starts.count_begin(AGAIN, None, MOST)
    await other.count_begin(a_delivery(deliveries=3), None, MOST)
    starts.give_back(second, was_begun=True)
    await starts.count_failure(a_delivery(2))  # over the same connection, later: the other one was answered
    assert await attempts(starts) == 3


async def test_a_settled_message_is_forgotten_and_counts_anew(starts: AttemptCounter) -> None:
    await starts.count_begin(AGAIN, None, MOST)
    starts.forget(AGAIN)

    async def is_forgotten() -> bool:
        return await starts.record_of(AGAIN) is None

    await until(is_forgotten)
    assert (await starts.count_begin(a_delivery(deliveries=3), None, MOST))[0].starts == 2


@pytest.mark.parametrize("text", [b"", b"x", b"-1", b"9" * 40, b"1 2"])
async def test_an_entry_that_is_no_record_is_none(place: Place, starts: AttemptCounter, text: bytes) -> None:
    subject = f"$KV.{place.bucket}.{key(FIRST.stream, FIRST.consumer, str(FIRST.sequence), str(FIRST.stored_ns))}"
    await place.jetstream.publish(subject, text, {})
    counted, may_begin = await starts.count_begin(AGAIN, None, 10**12)
    assert (counted.starts >= 2, may_begin) == (True, True)


async def test_a_count_that_cannot_be_stored_is_said(place: Place, evidence: AckedPublisher) -> None:
    with pytest.raises(BrokerUnavailable, match="a start cannot be written down"):
        await AttemptCounter(place.jetstream, evidence, "NO_SUCH_BUCKET").count_failure(FIRST)
