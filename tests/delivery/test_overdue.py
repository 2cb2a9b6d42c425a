"""A router that stood still longer than the ack wait: its message is another router's now, and it
must not bring it to a third one.
"""

import asyncio
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack, asynccontextmanager, suppress

import pytest
from msgspec.structs import replace

from router.core.message import Effect, Message
from router.core.outcome import Done, Fault, Outcome, Retry
from router.delivery.consume.consumer import Consumer, Deadlines
from router.delivery.consume.in_flight import InFlight
from router.delivery.wire.api import JetStream
from tests.support.conformance import RecordingConnection
from tests.support.delivery import (
    ProcessorBench,
    RecordingObserver,
    WorkStreams,
    a_processor,
    a_subscription,
    some_work_streams,
)
from tests.support.waiting import until

FAULT = Fault("busy", "not now")
MOST = 2  # attempts


@pytest.fixture
async def place(nats_url: str, prefix: str) -> AsyncIterator[WorkStreams]:
    async with some_work_streams(nats_url, prefix, ack_wait=0.4) as place:
        yield place


class OneMessage:
    """A router that has room for one message, and whose handler waits until it is told its outcome."""

    def __init__(
        self, place: WorkStreams, connection: RecordingConnection, acks: list[bytes]
    ) -> None:
        self.acks = acks
        self.attempts: list[int] = []
        self.watcher = RecordingObserver()
        self.outcome: asyncio.Future[Outcome] = asyncio.get_running_loop().create_future()
        subscription = a_subscription(
            self._handle,
            stream=place.stream,
            durable=place.durable,
            observer=self.watcher,
            dead_letter=lambda message, *_: Effect(
                place.letters, b"", f"dlq:{message.sequence}", is_dead_letter=True
            ),
            prefetch=1,
            ack_wait=0.4,
            heartbeat=0.2,
            pull_expires=1.0,
            backoff=(0.02,),
            max_attempts=MOST,
        )
        jetstream = JetStream(connection)
        self.consumer = Consumer(
            subscription,
            jetstream,
            attempts_bucket=place.bucket,
            send_reply=lambda *_: None,
            deadlines=Deadlines(soft=0.05, hard=0.1),
        )

    async def _handle(self, message: Message) -> Outcome:
        self.attempts.append(message.attempts)
        return await asyncio.shield(self.outcome)

    def stand_still(self, monkeypatch: pytest.MonkeyPatch) -> None:
        """It sends no in-progress signal."""
        assert self.consumer.processor is not None
        in_flight = self.consumer.processor.in_flight
        monkeypatch.setattr(in_flight, "signal", lambda *_: None)

    def go_on(self, monkeypatch: pytest.MonkeyPatch) -> None:
        assert self.consumer.processor is not None
        in_flight = self.consumer.processor.in_flight
        monkeypatch.setattr(
            in_flight, "signal", lambda next_in_s=0.0: InFlight.signal(in_flight, next_in_s)
        )


@asynccontextmanager
async def a_router(place: WorkStreams, url: str) -> AsyncIterator[OneMessage]:
    acks: list[bytes] = []
    connection = RecordingConnection(
        lambda kind, _, value: acks.append(value) if kind == "acked" else None, place.out
    )
    await connection.connect(url)
    router = OneMessage(place, connection, acks)
    task = asyncio.create_task(router.consumer.run())
    try:
        await until(lambda: router.consumer.health.is_ready or task.done())
        yield router
    finally:
        task.cancel()
        with suppress(asyncio.CancelledError):
            await task
        await connection.close()


async def test_a_router_that_stood_still_sends_back_no_message_that_another_one_attempts(
    place: WorkStreams, nats_url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Else the server delivers it a third time, and it is given up while its last allowed attempt
    still runs.
    """
    async with AsyncExitStack() as routers:
        slow = await routers.enter_async_context(a_router(place, nats_url))
        await place.connection.request(place.work, b"x", timeout=60)
        await until(lambda: slow.attempts)
        slow.stand_still(monkeypatch)
        other = await routers.enter_async_context(a_router(place, nats_url))
        await until(lambda: other.attempts)
        slow.go_on(monkeypatch)
        # this one may come again while the other one stands still
        slow.consumer.pause_switch.close("test", "it takes no other message")
        slow.outcome.set_result(Retry(FAULT))
        await until(lambda: slow.watcher.settles)
        assert slow.acks == []
        other.outcome.set_result(Done())
        await until(place.is_settled)
        assert (
            slow.attempts,
            other.attempts,
            other.acks,
            await place.last_sequence(place.out),
        ) == ([1], [2], [b"+ACK"], 0)


class Standing:
    """A processor whose one message waits for its outcome, and whose clock is set by the test. Its
    ack wait is 30 s.
    """

    def __init__(self) -> None:
        self.now = 0.0
        self.outcome: asyncio.Future[Outcome] = asyncio.get_running_loop().create_future()
        self.attempts: list[int] = []

    async def handle(self, message: Message) -> Outcome:
        self.attempts.append(message.attempts)
        return await self.outcome

    async def take(self, bench: ProcessorBench, deliveries: int) -> None:
        bench.processor.in_flight._now = lambda: self.now
        bench.take(1, deliveries)
        await until(lambda: self.attempts)

    async def end(self, bench: ProcessorBench, outcome: Outcome) -> None:
        self.outcome.set_result(outcome)
        await until(lambda: bench.watcher.settles or bench.publisher.asked)


@pytest.mark.parametrize("deliveries", [1, 2])
@pytest.mark.parametrize("is_seen_by", ["the timer", "the settlement"])
async def test_what_was_silent_for_an_ack_wait_is_not_sent_back(
    deliveries: int, is_seen_by: str
) -> None:
    """Whichever comes first when the process goes on: a signal that is too late takes nothing back."""
    standing = Standing()
    async with a_processor(standing.handle) as bench:
        await standing.take(bench, deliveries)
        standing.now = 30.1
        if is_seen_by == "the timer":
            bench.processor.tick(0.0)
        await standing.end(bench, Retry(FAULT))
        assert [ack for ack in bench.acks(1, deliveries) if ack != b"+WPI"] == []
        assert (bench.watcher.settles, len(bench.processor.in_flight)) == ([(1, False)], 0)


async def test_what_was_silent_for_less_is_sent_back() -> None:
    standing = Standing()
    async with a_processor(standing.handle) as bench:
        await standing.take(bench, 1)
        standing.now = 29.9
        await standing.end(bench, Retry(FAULT))
        assert bench.acks(1) == [b'-NAK {"delay": 1000000000}']


async def test_what_the_server_delivered_here_again_is_sent_back() -> None:
    standing = Standing()
    async with a_processor(standing.handle) as bench:
        await standing.take(bench, 1)
        standing.now = 31.0
        bench.processor.tick(0.0)
        bench.take(1, deliveries=2)
        await standing.end(bench, Retry(FAULT))
        assert bench.acks(1, 2) == [b'-NAK {"delay": 1000000000}']


async def test_a_drain_sends_back_nothing_that_another_process_may_have() -> None:
    standing = Standing()
    async with a_processor(standing.handle) as bench:
        await standing.take(bench, 1)
        standing.now = 31.0
        bench.processor.stop_taking()
        assert await bench.processor.drain(0, 0.05) is False
        assert (bench.acks(1), len(bench.processor.in_flight)) == ([], 0)


async def test_the_last_attempt_leaves_its_dead_letter_however_late_it_fails() -> None:
    """A process that gets the message meanwhile finds no attempt left: it would not know why."""
    standing = Standing()
    async with a_processor(standing.handle, max_attempts=2) as bench:
        await standing.take(bench, 2)
        standing.now = 31.0
        await standing.end(bench, Retry(FAULT))
        bench.publisher.accept()
        assert [effect.data for effect in bench.publisher.asked[0]] == [
            b"maxdeliver_exhausted:busy"
        ]
        assert bench.acks(1, 2) == [b"+ACK"]


async def test_a_first_attempt_that_another_process_counted_is_not_sent_back() -> None:
    """Its delivery waited in the socket while the process stood still, so no clock tells."""
    async with a_processor(lambda _: Retry(FAULT)) as bench:
        count = bench.attempt_counter.count_failure
        bench.attempt_counter.counts[1] = 0

        async def count_late(message: Message, writer: str) -> Message:
            return replace(await count(message), is_recorded=True)

        bench.attempt_counter.count_failure = count_late  # type: ignore[method-assign]
        bench.take(1)
        await until(lambda: bench.watcher.settles)
        assert bench.acks(1) == []
