"""Many effects as one atomic batch, on a real server; one by one wherever that cannot be, and never
out of order.
"""

import asyncio
from collections.abc import AsyncIterator, Callable, Sequence
from contextlib import asynccontextmanager
from functools import partial
from types import SimpleNamespace
from typing import cast

import pytest

from router.core.message import Effect
from router.delivery.publish.acked_publisher import NotPublished, PublishAcks
from router.delivery.publish.batching_publisher import BatchingPublisher, StreamOf
from router.delivery.publish.encoded_headers import head_with_id
from router.delivery.publish.known_effects import KnownEffects
from router.delivery.publish.publish_costs import PublishCosts
from router.delivery.wire.api import JetStream
from tests.support.delivery import FakeConnection, WorkStreams, some_work_streams
from tests.support.publish_costs import cheap, dear
from tests.support.waiting import until

MANY = 60


class Asked:
    """What was asked for, and what was heard of it: by the first id of each."""

    def __init__(self, together: BatchingPublisher, subject: str) -> None:
        self._together = together
        self._subject = subject
        self.heard: dict[str, list[PublishAcks | NotPublished]] = {}
        self._raising: tuple[str, ...] = ()

    def raise_at(self, *ids: str) -> None:
        """Let the callbacks of these raise, once they have heard."""
        self._raising = ids

    def ask(self, *ids: str, subjects: Sequence[str] = ()) -> None:
        effects = [
            Effect(subject, one.encode(), one)
            for one, subject in zip(ids, subjects or [self._subject] * len(ids), strict=True)
        ]
        self.heard.setdefault(ids[0], [])
        self._together.publish(effects, partial(self._on_heard, ids[0]))

    def _on_heard(self, first: str, result: PublishAcks | NotPublished) -> None:
        self.heard[first].append(result)
        if first in self._raising:
            raise ValueError(first)

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
async def a_publisher(
    jetstream: JetStream,
    stream_of: StreamOf,
    make_costs: Callable[[], PublishCosts] = dear,
    known: KnownEffects | None = None,
) -> AsyncIterator[BatchingPublisher]:
    together = BatchingPublisher(jetstream, 60.0, known, stream_of=stream_of, make_costs=make_costs)
    await together.open()
    ticking = asyncio.create_task(_tick(together))
    yield together
    ticking.cancel()
    await together.close()


async def _tick(together: BatchingPublisher) -> None:
    while True:
        await asyncio.sleep(0.05)
        together.expire()


@pytest.fixture
async def on(place: WorkStreams, prefix: str) -> AsyncIterator[Callable[[str], Asked]]:
    """A publisher's question to the streams by number: 0 and 1 take batches, 2 does not, 3 does not
    exist.
    """
    async with a_publisher(place.jetstream, lambda subject: subject) as together:
        yield lambda stream: Asked(together, f"{prefix}.{stream}")


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


async def test_who_waits_alone_is_stored_by_itself(
    on: Callable[[str], Asked], place: WorkStreams, prefix: str
) -> None:
    asked = on("0")
    for number in range(3):
        asked.ask(str(number))
        await asked.all_heard()
    assert asked.sequences == [1, 2, 3]
    assert await in_batches(place, f"{prefix}0") == [False] * 3


async def test_a_stream_that_is_cheap_gets_no_batches(place: WorkStreams, prefix: str) -> None:
    async with a_publisher(place.jetstream, lambda subject: subject, cheap) as together:
        asked = Asked(together, f"{prefix}.0")
        asked.ask_many(*range(MANY))
        await asked.all_heard()
    assert asked.sequences == list(range(1, MANY + 1))
    assert await in_batches(place, f"{prefix}0") == [False] * MANY


async def test_what_is_on_its_way_to_a_cheap_stream_is_measured(
    place: WorkStreams, prefix: str
) -> None:
    async with a_publisher(place.jetstream, lambda subject: subject, PublishCosts) as together:
        asked = Asked(together, f"{prefix}.0")
        asked.ask_many(*range(MANY))
        together.expire()  # as the consumer's timer does
        await asked.all_heard()
        (stream,) = together._streams.values()
    assert stream.costs.each_s > 0
    assert asked.sequences == list(range(1, MANY + 1))
    assert await in_batches(place, f"{prefix}0") == [False] * MANY


async def test_an_effect_with_an_owner_is_published_once_in_whatever_batch(
    place: WorkStreams, prefix: str
) -> None:
    known = KnownEffects(60.0)
    published = await published_on(place, f"{prefix}.0")
    async with a_publisher(place.jetstream, lambda subject: subject, dear, known) as together:
        heard: list[PublishAcks | NotPublished] = []
        for number in range(3 * MANY):
            effect = Effect(f"{prefix}.0", b"", f"e-{number % MANY}", owner="acme")
            together.publish([effect], heard.append)
        await until(lambda: len(heard) == 3 * MANY)
        effect = Effect(f"{prefix}.0", b"", "e-0", owner="acme")
        (again,) = cast(PublishAcks, await together.publish_and_wait([effect]))
    await place.connection.flush()
    assert (len(published), again.sequence, again.is_duplicate) == (MANY, 1, True)


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


@pytest.mark.parametrize("stream", ["0", "2"], ids=["in a batch", "one by one"])
async def test_a_callback_that_raises_keeps_no_other_from_its_publish_ack(
    on: Callable[[str], Asked], place: WorkStreams, stream: str
) -> None:
    asked, faults = on(stream), list[BaseException]()
    place.jetstream.connection.on_fault = faults.append
    asked.ask_many(*range(MANY))
    asked.raise_at("7", "9")
    await asked.all_heard()
    asked.ask_many(*range(MANY, 2 * MANY))
    await asked.all_heard()
    assert asked.sequences == list(range(1, 2 * MANY + 1))
    assert [str(fault) for fault in faults] == ["7", "9"]


async def test_each_stream_has_batches_of_its_own(
    on: Callable[[str], Asked], place: WorkStreams, prefix: str
) -> None:
    one, other = on("0"), on("1")
    for number in range(MANY):
        (one if number < 20 else other).ask(str(number))
    await one.all_heard()
    await other.all_heard()
    assert (one.sequences, other.sequences) == (
        list(range(1, 20 + 1)),
        list(range(1, MANY - 20 + 1)),
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


async def test_a_batch_that_is_silent_is_sent_again_one_by_one() -> None:
    connection = FakeConnection()
    async with a_publisher(
        cast(JetStream, SimpleNamespace(connection=connection)), lambda _: "S"
    ) as together:
        asked = Asked(together, "s")
        asked.ask_many(*range(MANY))
        await until(lambda: len(connection.posts) == MANY)
        assert sum(b"Nats-Batch-Commit" in post.head for post in connection.posts) == 1
        now = together._now()
        together._now = lambda: now + 1_000
        together.expire()
        assert len(connection.posts) == 2 * MANY
        again = connection.posts[MANY:]
        assert [post.data for post in again] == [b"%d" % number for number in range(MANY)]
        assert all(post.reply and b"Nats-Batch" not in post.head for post in again)


async def test_what_waits_behind_a_batch_is_told_as_not_stored_when_its_time_is_over() -> None:
    connection = FakeConnection()
    async with a_publisher(
        cast(JetStream, SimpleNamespace(connection=connection)), lambda _: "S"
    ) as together:
        asked = Asked(together, "s")
        asked.ask_many(*range(MANY))
        await until(lambda: len(connection.posts) == MANY)
        asked.ask("late", "later")
        now = together._now()
        together._now = lambda: now + 61
        together.expire()
        (heard,) = asked.heard["late"]
        assert cast(NotPublished, heard).err_code == 0


async def test_once_closed_nothing_is_heard_any_more() -> None:
    async with a_publisher(
        cast(JetStream, SimpleNamespace(connection=FakeConnection())), lambda _: "S"
    ) as together:
        asked = Asked(together, "s")
        asked.ask_many(*range(MANY))
        await asyncio.sleep(0)
    await asyncio.sleep(0.02)
    assert not any(asked.heard.values())


async def test_an_effect_that_a_batch_would_make_too_large_goes_by_itself_in_its_order(
    place: WorkStreams, prefix: str
) -> None:
    """Else the server closes the connection, and all that is on its way is lost."""
    connection = place.jetstream.connection
    subject = f"{prefix}.0"
    heard: list[PublishAcks | NotPublished] = []
    large = b"x" * (connection.max_payload - len(head_with_id({}, "2")))
    async with a_publisher(place.jetstream, lambda subject: subject) as together:
        for number in range(6):
            data = large if number == 2 else b"small"
            together.publish([Effect(subject, data, str(number))], heard.append)
        await until(lambda: len(heard) == 6)
    assert connection.reconnect_count == 0
    assert [cast(PublishAcks, result)[0].sequence for result in heard] == [1, 2, 3, 4, 5, 6]
    assert not (await in_batches(place, f"{prefix}0"))[2]
