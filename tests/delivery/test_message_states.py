"""Where a message in flight can be: how it gets into each state, what a drain makes of it there,
and which state follows which.
"""

import asyncio
from collections.abc import Awaitable, Sequence
from random import Random

import pytest

from router.core.deferred import Deferred
from router.core.errors import BrokerUnavailable
from router.core.message import Effect, Message
from router.core.outcome import Dead, Done, Fault, Hold, Outcome, PublishAck, Retry
from router.delivery.consume import in_flight
from router.delivery.consume.in_flight import InFlightMessage, MessageState
from tests.support.delivery import ProcessorBench, a_processor
from tests.support.waiting import until

(
    QUEUED,
    UNEXPLAINED,
    COUNTING,
    WAITING_FOR_SLOT,
    HANDLING,
    UNAVAILABLE,
    PUBLISHING,
    UNSTORED,
    WAITING_FOR_ROOM,
    COMMITTING,
    SETTLED,
) = MessageState
NAK_AT_ONCE = b'-NAK {"delay": 10000000}'
FAULT = Fault("busy", "not now")

FOLLOW = {
    QUEUED: {HANDLING, WAITING_FOR_SLOT, UNAVAILABLE, COUNTING, PUBLISHING, COMMITTING, SETTLED},
    UNEXPLAINED: {COUNTING, SETTLED},
    COUNTING: {HANDLING, WAITING_FOR_SLOT, UNAVAILABLE, PUBLISHING, COMMITTING, SETTLED},
    WAITING_FOR_SLOT: {HANDLING, SETTLED},
    HANDLING: {UNAVAILABLE, COUNTING, PUBLISHING, COMMITTING, SETTLED},
    UNAVAILABLE: {QUEUED, UNAVAILABLE, COUNTING, PUBLISHING, COMMITTING, SETTLED},
    PUBLISHING: {PUBLISHING, UNSTORED, WAITING_FOR_ROOM, COMMITTING, SETTLED},
    UNSTORED: {PUBLISHING, WAITING_FOR_ROOM, COMMITTING, SETTLED},
    WAITING_FOR_ROOM: {PUBLISHING, COMMITTING, SETTLED},
    COMMITTING: {COUNTING, PUBLISHING, SETTLED},
    SETTLED: set[MessageState](),
}

Steps = list[tuple[MessageState, MessageState]]


@pytest.fixture
def steps(monkeypatch: pytest.MonkeyPatch) -> Steps:
    """Every change of the state of a message that is in flight."""
    steps: Steps = []

    class Recorded(InFlightMessage):
        def __setattr__(self, name: str, value: object) -> None:
            if name == "state":
                steps.append((self.state, value))  # type: ignore[arg-type]
            super().__setattr__(name, value)

    monkeypatch.setattr(in_flight, "InFlightMessage", Recorded)
    return steps


class World:
    """A handler whose answers, and whose broker, are drawn: a message meets everything that may
    happen to it.
    """

    def __init__(self, random: Random) -> None:
        self.random = random
        self.promises: list[Deferred[Outcome]] = []

    def handle(self, message: Message) -> Outcome | Awaitable[Outcome]:
        return self.random.choice([self._answer, self._answer, self._wait, self._promise])()

    def _answer(self) -> Outcome:
        effect = Effect("effects", b"", "e")
        if self.random.random() < 0.2:
            raise BrokerUnavailable("away")
        return self.random.choice(
            [
                Done(),
                Done((effect,)),
                Done((effect,), None, self._commit),
                Retry(FAULT),
                Retry(FAULT, uses_attempt=False),
                Dead(FAULT),
                Hold(FAULT),
            ]
        )

    async def _commit(self, _: Sequence[PublishAck]) -> None:
        await asyncio.sleep(0)
        if self.random.random() < 0.3:
            raise OSError("away")

    async def _wait(self) -> Outcome:
        for _ in range(self.random.randrange(20)):
            await asyncio.sleep(0)
        return self._answer()

    def _promise(self) -> Deferred[Outcome]:
        self.promises.append(Deferred())
        return self.promises[-1]

    def keep_promises(self) -> None:
        promises, self.promises = self.promises, []
        for promise in promises:
            try:
                promise.resolve(self._answer())
            except BrokerUnavailable as exc:
                promise.resolve(exc)

    async def happen(self, bench: ProcessorBench, deliveries: dict[int, int]) -> None:
        """A delivery, or one thing that the broker does."""
        sequence = self.random.randrange(1, 200)
        match self.random.randrange(8):
            case 0 | 1 | 2 | 3:
                deliveries[sequence] = deliveries.get(sequence, 0) + 1
                bench.take(sequence, deliveries[sequence])
            case 4:
                bench.publisher.refusing = None
                bench.publisher.accept()
            case 5:
                bench.publisher.refuse()
            case 6:
                self.keep_promises()
            case _:
                bench.attempt_counter.is_down = not bench.attempt_counter.is_down
        await asyncio.sleep(0)


@pytest.mark.parametrize(("max_waiting", "waits_alone"), [(0, False), (8, False), (8, True)])
async def test_whatever_happens_each_state_is_followed_by_one_that_may_follow_it(
    steps: Steps, max_waiting: int, waits_alone: bool
) -> None:
    """Two hundred messages, two thousand deliveries and faults; then all goes well, and nothing is
    left in flight.
    """
    world, deliveries = World(Random(19)), dict[int, int]()
    async with a_processor(
        world.handle, slots=1, store_retry=0.0, max_waiting=max_waiting, waits_alone=waits_alone
    ) as bench:
        for _ in range(2_000):
            await world.happen(bench, deliveries)
        bench.attempt_counter.is_down, bench.publisher.refusing = False, None
        world.random = Random(0)

        def is_empty() -> bool:
            world.keep_promises()
            bench.publisher.accept()
            return not len(bench.processor.in_flight)

        await until(is_empty)
        await until(lambda: bench.pause_switch.is_open and bench.processor.outages.cause is None)
    met = set(steps)
    assert (
        sorted((before.name, after.name) for before, after in met if after not in FOLLOW[before])
        == []
    )
    assert {before for before, _ in met} | {SETTLED} >= set(MessageState) - (
        {UNSTORED} if max_waiting else {WAITING_FOR_ROOM}
    )


async def bring_to(state: MessageState, bench: ProcessorBench) -> None:
    """Message 1 into a state; message 2 is in the way where one must be."""
    match state:
        case MessageState.QUEUED:
            bench.pause_switch.close("test", "paused")
        case MessageState.UNEXPLAINED:
            bench.take(2, deliveries=2)
            await until(lambda: bench.attempt_counter.counts)
        case MessageState.COUNTING:
            bench.attempt_counter.is_down = True
        case MessageState.WAITING_FOR_SLOT:
            bench.take(2)
        case _:
            pass
    bench.take(1, deliveries=2 if state in (UNEXPLAINED, COUNTING) else 1)
    if state in (UNSTORED, WAITING_FOR_ROOM):
        bench.publisher.refuse()
    if state is COMMITTING:
        bench.publisher.accept()
    await until(
        lambda: (
            [held.message.sequence for held in bench.processor.in_flight if held.state is state]
            == [1]
        ),
        what=state.name,
    )


@pytest.mark.parametrize("state", [state for state in MessageState if state is not SETTLED])
async def test_a_drain_hands_back_a_message_wherever_it_is(state: MessageState) -> None:
    """It is NAKed once; where its handler has not begun, its attempt is given back."""
    ends = asyncio.Event()

    async def wait(_: object) -> None:
        await ends.wait()

    async def wait_and_end() -> Outcome:
        await ends.wait()
        return Done()

    def handle(_: Message) -> Outcome | Awaitable[Outcome]:
        if state is UNAVAILABLE:
            raise BrokerUnavailable("away")
        if state in (PUBLISHING, UNSTORED, WAITING_FOR_ROOM, COMMITTING):
            return Done((Effect("effects", b"", "e"),), None, wait)
        return wait_and_end()

    async with a_processor(
        handle, slots=1, store_retry=60, max_waiting=8 if state is WAITING_FOR_ROOM else 0
    ) as bench:
        await bring_to(state, bench)
        held = bench.processor.in_flight.list_in(state)[0]
        bench.processor.stop_taking()
        await bench.processor.drain(0.01, 0.02)
        assert (
            bench.connection.posted(held.ack_subject),
            held.state,
            len(bench.processor.in_flight),
        ) == ([NAK_AT_ONCE], SETTLED, 0)
        assert (bench.attempt_counter.counts.get(1) == 0) is (
            state in (QUEUED, WAITING_FOR_SLOT, UNAVAILABLE)
        )
        ends.set()
