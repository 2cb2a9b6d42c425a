"""Many effects as one atomic batch, on a real server; one by one wherever that cannot be, and never
out of order.
"""

import asyncio
from collections.abc import AsyncIterator, Callable, Sequence
from contextlib import asynccontextmanager
from types import SimpleNamespace
from typing import cast

import pytest

from router.core.message import Effect
from router.delivery.publish.acked_publisher import AckedPublisher, NotPublished, PublishAcks
from router.delivery.publish.batching_publisher import MIN_BATCH, BatchingPublisher, StreamOf
from router.delivery.wire.api import JetStream
from tests.support.delivery import FakeConnection, FakePublisher, WorkStreams, some_work_streams
from tests.support.waiting import until

MANY = 3 * MIN_BATCH


class Asked:
    """What was asked for, and what was heard of it: by the first id of each."""

    def __init__(self, together: BatchingPublisher, subject: str) -> None:
        self._together = together
        self._subject = subject
        self.heard: dict[str, list[PublishAcks | NotPublished]] = {}

    def ask(self, *ids: str, subjects: Sequence[str] = ()) -> None:
        effects = [
            Effect(subject, one.encode(), one)
            for one, subject in zip(ids, subjects or [self._subject] * len(ids), strict=True)
        ]
        self._together.publish(effects, self.heard.setdefault(ids[0], []).append)

    def ask_many(self, *numbers: int) -> None:
        for number in numbers:
            self.ask(str(number))

    async def all_heard(self) -> None:
        await until(lambda: all(self.heard.values()))
        assert [len(heard) for heard in self.heard.values()] == [1] * len(self.heard)

    @property
    def sequences(self) -> list[int]:
        """Of all that was stored, in the order in which it was asked for."""
        return [
            publish_ack.sequence
            for heard in self.heard.values()
            for publish_ack in cast(PublishAcks, heard[0])
        ]


@pytest.fixture
async def place(nats_url: str, prefix: str) -> AsyncIterator[WorkStreams]:
    async with some_work_streams(nats_url, prefix) as place:
        for number, is_atomic in enumerate((True, True, False)):
            config = {
                "name": f"{prefix}{number}",
                "subjects": [f"{prefix}.{number}"],
                "allow_atomic": is_atomic,
                "storage": "file",
            }
            await place.jetstream.ask(f"STREAM.CREATE.{prefix}{number}", config)
        yield place


@asynccontextmanager
async def together_on(
    jetstream: JetStream, publisher: AckedPublisher, stream_of: StreamOf, timeout_s: float = 60.0
) -> AsyncIterator[BatchingPublisher]:
    async with asyncio.TaskGroup() as tasks:
        together = BatchingPublisher(
            jetstream, publisher, stream_of=stream_of, tasks=tasks, timeout_s=timeout_s
        )
        await together.open()
        yield together
        await together.close()


@pytest.fixture
async def on(place: WorkStreams, prefix: str) -> AsyncIterator[Callable[[str], Asked]]:
    """A publisher's question to the streams by number: 0 and 1 take batches, 2 does not, 3 does not
    exist.
    """
    publisher = AckedPublisher(place.jetstream)
    await publisher.open()
    async with together_on(place.jetstream, publisher, lambda subject: subject) as together:
        yield lambda stream: Asked(together, f"{prefix}.{stream}")
    await publisher.close()


async def in_batches(place: WorkStreams, stream: str) -> list[bool]:
    """For each message of a stream, in order, whether it came in a batch."""
    found, sequence = [], 0
    while (message := await place.jetstream.get_next(stream, ">", sequence + 1)) is not None:
        sequence = message.sequence
        found.append("Nats-Batch-Id" in message.headers)
    return found


async def published_on(place: WorkStreams, subject: str) -> list[str]:
    """Everything that is sent there, stored or not; it grows."""
    heard: list[str] = []
    await place.connection.subscribe_direct(subject, lambda subject, *_: heard.append(subject))
    await place.connection.flush()
    return heard


async def test_what_many_ask_for_in_one_iteration_of_the_loop_is_one_batch(
    on: Callable[[str], Asked], place: WorkStreams, prefix: str
) -> None:
    asked = on("0")
    asked.ask("a", "b", "c")
    asked.ask_many(*range(MANY))
    await asked.all_heard()
    assert asked.sequences == list(range(1, MANY + 4))
    assert await in_batches(place, f"{prefix}0") == [True] * (MANY + 3)


async def test_a_few_are_stored_one_by_one(
    on: Callable[[str], Asked], place: WorkStreams, prefix: str
) -> None:
    asked = on("0")
    asked.ask_many(*range(MIN_BATCH - 1))
    await asked.all_heard()
    assert asked.sequences == list(range(1, MIN_BATCH))
    assert await in_batches(place, f"{prefix}0") == [False] * (MIN_BATCH - 1)


async def test_more_than_a_batch_may_hold_are_several(
    on: Callable[[str], Asked], place: WorkStreams, prefix: str
) -> None:
    asked = on("0")
    asked.ask_many(*range(1030))
    await asked.all_heard()
    assert asked.sequences == list(range(1, 1031))
    assert all(await in_batches(place, f"{prefix}0"))


async def test_a_known_id_is_found_again_and_its_neighbours_are_stored_once(
    on: Callable[[str], Asked], place: WorkStreams
) -> None:
    asked = on("0")
    asked.ask("7")
    await asked.all_heard()
    asked.heard.clear()
    asked.ask_many(*range(MANY))
    await asked.all_heard()
    assert asked.sequences == [*range(2, 9), 1, *range(9, MANY + 1)]
    (known,) = asked.heard["7"]
    assert cast(PublishAcks, known)[0].is_duplicate


async def test_nothing_overtakes_a_batch_that_is_refused(on: Callable[[str], Asked]) -> None:
    asked = on("0")
    asked.ask("known")
    await asked.all_heard()
    asked.heard.clear()
    asked.ask_many(*range(MANY))
    asked.ask("known")  # refuses the batch
    await asyncio.sleep(0)  # it is on its way
    asked.ask("last")
    await asked.all_heard()
    assert asked.sequences == [*range(2, MANY + 2), 1, MANY + 2]


async def test_each_stream_has_batches_of_its_own(
    on: Callable[[str], Asked], place: WorkStreams, prefix: str
) -> None:
    one, other = on("0"), on("1")
    for number in range(MANY):
        (one if number < MIN_BATCH else other).ask(str(number))
    await one.all_heard()
    await other.all_heard()
    assert (one.sequences, other.sequences) == (
        list(range(1, MIN_BATCH + 1)),
        list(range(1, MANY - MIN_BATCH + 1)),
    )
    assert all(await in_batches(place, f"{prefix}0") + await in_batches(place, f"{prefix}1"))


async def test_one_message_for_two_streams_goes_in_its_order_and_in_no_batch(
    on: Callable[[str], Asked], place: WorkStreams, prefix: str
) -> None:
    asked, published = on("0"), await published_on(place, f"{prefix}.0")
    for number in range(MANY):
        asked.ask(
            f"{number}a",
            f"{number}b",
            f"{number}c",
            subjects=[f"{prefix}.0", f"{prefix}.1", f"{prefix}.0"],
        )
    await asked.all_heard()
    found = [
        [publish_ack.sequence for publish_ack in cast(PublishAcks, heard[0])]
        for heard in asked.heard.values()
    ]
    assert found == [[2 * n + 1, n + 1, 2 * n + 2] for n in range(MANY)]
    await place.connection.flush()
    assert len(published) == 2 * MANY


async def test_a_stream_that_takes_no_batches_is_not_asked_twice(
    on: Callable[[str], Asked], place: WorkStreams, prefix: str
) -> None:
    asked, published = on("2"), await published_on(place, f"{prefix}.2")
    for numbers in (range(MANY), range(MANY, 2 * MANY)):
        asked.ask_many(*numbers)
        await asked.all_heard()
    assert asked.sequences == list(range(1, 2 * MANY + 1))
    await place.connection.flush()
    assert len(published) == 3 * MANY  # the first sixty twice: as a batch, and one by one


async def test_a_batch_without_a_stream_fails_each_caller_once(on: Callable[[str], Asked]) -> None:
    asked = on("3")
    asked.ask_many(*range(MANY))
    await asked.all_heard()
    assert all(isinstance(heard, NotPublished) for (heard,) in asked.heard.values())


async def test_a_batch_without_a_publish_ack_in_time_is_told_as_not_stored() -> None:
    publisher = FakePublisher()
    silent = cast(JetStream, SimpleNamespace(connection=FakeConnection()))
    async with together_on(
        silent, cast(AckedPublisher, publisher), lambda _: "S", timeout_s=0.02
    ) as together:
        asked = Asked(together, "s")
        asked.ask_many(*range(MANY))
        await asked.all_heard()
    assert {cast(NotPublished, heard).cause for (heard,) in asked.heard.values()} == {
        "no publish ack in time"
    }
    assert publisher.asked == []


async def test_once_closed_nothing_is_heard_any_more() -> None:
    silent = cast(JetStream, SimpleNamespace(connection=FakeConnection()))
    async with together_on(
        silent, cast(AckedPublisher, FakePublisher()), lambda _: "S"
    ) as together:
        asked = Asked(together, "s")
        asked.ask_many(*range(MANY))
        await asyncio.sleep(0)
    assert not any(asked.heard.values())
