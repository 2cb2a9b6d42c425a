from collections.abc import AsyncIterator

import pytest
from msgspec.structs import replace

from router.delivery.evidence import Evidence
from router.delivery.starts import Starts
from router.errors import BrokerUnavailable
from tests.support.delivery import Place, a_delivery, a_place
from tests.support.waiting import until


@pytest.fixture
async def place(nats_url: str, prefix: str) -> AsyncIterator[Place]:
    async with a_place(nats_url, prefix) as place:
        yield place


@pytest.fixture
async def evidence(place: Place) -> AsyncIterator[Evidence]:
    evidence = Evidence(place.jetstream, timeout_s=1.0)
    await evidence.open()
    yield evidence
    await evidence.close()


@pytest.fixture
async def starts(place: Place, evidence: Evidence) -> Starts:
    return Starts(place.jetstream, evidence, place.bucket)


async def test_a_message_that_nobody_marked_has_no_marks(starts: Starts) -> None:
    assert await starts.marks(a_delivery(deliveries=9)) == 0


async def test_a_mark_is_there_for_every_later_delivery_and_every_other_process(place: Place, evidence: Evidence, starts: Starts) -> None:
    await starts.mark(a_delivery(deliveries=2), 1)
    await starts.mark(a_delivery(deliveries=3), 2)
    assert await Starts(place.jetstream, evidence, place.bucket).marks(a_delivery(deliveries=4)) == 2


async def test_marks_are_of_one_stream_one_consumer_one_message(starts: Starts) -> None:
    await starts.mark(a_delivery(1, deliveries=2), 1)
    marked = a_delivery(1)
    others = [replace(marked, stream="T"), replace(marked, consumer="D"), replace(marked, sequence=2), replace(marked, stored_ns=5)]
    assert [await starts.marks(other) for other in others] == [0, 0, 0, 0]


async def test_names_that_are_no_keys_do_not_meet(starts: Starts) -> None:
    await starts.mark(replace(a_delivery(deliveries=2), stream="a.b", consumer="c"), 1)
    assert await starts.marks(replace(a_delivery(), stream="a", consumer="b.c")) == 0


async def test_a_start_that_is_not_to_count_is_taken_back(place: Place, starts: Starts) -> None:
    for count in (1, 2):
        await starts.mark(a_delivery(deliveries=count + 1), count)
    starts.take_back(place.connection, a_delivery(deliveries=3, starts=3))

    async def is_taken_back() -> bool:
        return await starts.marks(a_delivery(deliveries=4)) == 1

    await until(is_taken_back)


async def test_a_settled_message_is_forgotten(place: Place, starts: Starts) -> None:
    message = a_delivery(deliveries=2)
    await starts.mark(message, 1)
    starts.forget(place.connection, message)

    async def is_forgotten() -> bool:
        return await starts.marks(message) == 0

    await until(is_forgotten)


async def test_a_mark_that_cannot_be_stored_is_said(place: Place, evidence: Evidence) -> None:
    with pytest.raises(BrokerUnavailable, match="a start cannot be written down"):
        await Starts(place.jetstream, evidence, "NO_SUCH_BUCKET").mark(a_delivery(deliveries=2), 1)
