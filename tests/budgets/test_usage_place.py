"""Where the settlement goes on in a usage stream that is the one that it settled, another one, or a
copy.
"""

from collections.abc import AsyncIterator

import pytest

from router.budgets.booked_usage import UsagePlace, find_place
from router.budgets.model.spent_record import BookingRecord, find_created
from router.core.errors import BrokerUnavailable
from router.delivery.wire.api import JetStream, nanos
from tests.support.delivery import connected
from tests.support.waiting import until

ANOTHER = "2026-11-20T00:00:00Z other"


@pytest.fixture
async def jetstream(nats_url: str, prefix: str) -> AsyncIterator[JetStream]:
    """The stream that the test is called by holds five events."""
    async with connected(nats_url) as connection:
        jetstream = JetStream(connection)
        await jetstream.ask(f"STREAM.CREATE.{prefix}", {"name": prefix, "subjects": [prefix]})
        for number in range(5):
            await jetstream.publish(prefix, b"%d" % number, {})
        yield jetstream


async def settled_at(jetstream: JetStream, stream: str, sequence: int) -> UsagePlace:
    """The place when the event of this sequence is settled."""
    message = await jetstream.message(stream, sequence)
    assert message is not None
    place = await find_place(jetstream, stream, None)
    return UsagePlace(place.timeline, sequence, nanos(message.time))


def record_of(place: UsagePlace, **changed: object) -> BookingRecord:
    fields = {
        "timeline": place.timeline,
        "through": place.through,
        "stored_ns": place.stored_ns,
        **changed,
    }
    return BookingRecord(life="one", **fields)  # type: ignore[arg-type]


async def test_without_a_record_it_begins_at_the_end(jetstream: JetStream, prefix: str) -> None:
    last, place = await settled_at(jetstream, prefix, 5), await find_place(jetstream, prefix, None)
    assert (place.through, place.stored_ns) == (last.through, last.stored_ns)


async def test_the_same_stream_goes_on_after_the_sequence(
    jetstream: JetStream, prefix: str
) -> None:
    place = await settled_at(jetstream, prefix, 3)
    assert await find_place(jetstream, prefix, record_of(place)) == place


async def test_a_copy_goes_on_after_the_same_event(jetstream: JetStream, prefix: str) -> None:
    """A mirror that is promoted keeps sequences and times, and was made at another time."""
    settled, copy = await settled_at(jetstream, prefix, 3), f"{prefix}-copy"
    await jetstream.ask(f"STREAM.CREATE.{copy}", {"name": copy, "mirror": {"name": prefix}})
    await until(lambda: holds(jetstream, copy, 5), what="the mirror has every event")
    place = await find_place(jetstream, copy, record_of(settled))
    assert (place.through, place.stored_ns) == (3, settled.stored_ns)
    assert place.created != settled.created


async def holds(jetstream: JetStream, stream: str, messages: int) -> bool:
    info = await jetstream.stream(stream)
    return info is not None and info["state"]["messages"] == messages


async def test_a_stream_that_was_made_later_is_settled_from_its_first_event(
    jetstream: JetStream, prefix: str
) -> None:
    before = await settled_at(jetstream, prefix, 1)
    record = record_of(before, timeline=ANOTHER, through=1_000_000, stored_ns=before.stored_ns - 1)
    assert (await find_place(jetstream, prefix, record)).through == 0


@pytest.mark.parametrize("through", [6, 1_000_000])
async def test_a_stream_that_lost_its_end_goes_on_at_the_end_that_it_has(
    jetstream: JetStream, prefix: str, through: int
) -> None:
    """Its sequences are given again, so they are another timeline."""
    last = await settled_at(jetstream, prefix, 5)
    place = await find_place(
        jetstream, prefix, record_of(last, through=through, stored_ns=last.stored_ns + 1)
    )
    assert place.through == 5
    assert place.created == last.created
    assert place.timeline != last.timeline


async def test_where_there_is_no_stream_there_is_no_place(jetstream: JetStream) -> None:
    with pytest.raises(BrokerUnavailable):
        await find_place(jetstream, "none", None)


def test_a_timeline_tells_when_its_stream_was_made() -> None:
    assert find_created(ANOTHER) == "2026-11-20T00:00:00Z"


async def test_a_stream_that_lost_its_end_and_has_grown_beyond_it_goes_on_after_the_last_settled_event(
    jetstream: JetStream, prefix: str
) -> None:
    """The sequence that was settled is that of a later event now."""
    settled = await settled_at(jetstream, prefix, 3)
    place = await find_place(jetstream, prefix, record_of(settled, through=4))
    assert (place.through, place.created) == (3, settled.created)
    assert place.timeline != settled.timeline
