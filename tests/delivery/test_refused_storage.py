"""A stream without room: who waits for it, in whose share, what becomes of the others, and of all
of them at the end.
"""

import asyncio
from collections.abc import AsyncIterator, Sequence

import pytest
from msgspec.structs import replace

from router.core.message import Effect, Message, Reply
from router.core.outcome import Dead, Done, Fault, Outcome, Retry
from router.delivery.consume.refused_storage import RefusedStorage
from router.delivery.consume.settlement import (
    PendingSettlement,
    decide_settlement,
    decide_without_place,
)
from router.delivery.consume.subscription import ACK, DEAD_LETTER_OMITTED, DECLINED, SENT_BACK
from router.delivery.consume.task_pool import BackgroundTasks
from router.delivery.publish.acked_publisher import NotPublished, PublishAcks
from tests.support.delivery import (
    RecordingObserver,
    a_delivery,
    a_processor,
    a_subscription,
    publish_acks_for,
)
from tests.support.waiting import until

FULL = NotPublished("effects", 10077, "maximum bytes exceeded")
SEALED = NotPublished("effects", 10109, "invalid operation on sealed stream")
TOO_LARGE = NotPublished("effects", 10054, "message size exceeds maximum allowed")


class RoomPublisher:
    """Stores what is no larger than the room that is left."""

    def __init__(self) -> None:
        self.room = 0
        self.refusal = FULL
        self.tried: list[str] = []

    async def publish_and_wait(self, effects: Sequence[Effect]) -> PublishAcks | NotPublished:
        self.tried.append(effects[0].id)
        return publish_acks_for(effects) if len(effects[0].data) <= self.room else self.refusal

    def publish(self, effects: Sequence[Effect], callback: object) -> None: ...


class Waits:
    def __init__(self, tasks: asyncio.TaskGroup) -> None:
        self.publisher, self.watcher = RoomPublisher(), RecordingObserver()
        self.stored: list[int] = []
        self.given_up: list[int] = []
        self.again: list[int] = []
        self.subscription = a_subscription(
            store_retry=0.001, max_waiting=8, observer=self.watcher, full_retry=5.0
        )
        self.refused = RefusedStorage(self.subscription, self.publisher)
        self.background_tasks = BackgroundTasks(tasks)

    def take(self, sequence: int, tenant: str = "acme", size: int = 1) -> bool:
        outcome = Done((Effect("effects", b"x" * size, f"e-{sequence}"),))
        has_place = self.refused.take(self.pending(outcome, sequence, tenant), FULL)
        self.background_tasks.start_once("room", self.retry)
        return has_place

    async def retry(self) -> None:
        async for pending, publish_acks in self.refused.retry():
            is_given_up = isinstance(publish_acks, NotPublished)
            going = (
                self.given_up
                if is_given_up
                else self.again
                if publish_acks is None
                else self.stored
            )
            going.append(pending.message.sequence)

    def pending(
        self, outcome: Outcome, sequence: int = 1, tenant: str = "acme"
    ) -> PendingSettlement:
        message: Message = replace(a_delivery(sequence), headers={"tenant_id": tenant})
        return PendingSettlement(
            message, outcome, decide_settlement(self.subscription, message, outcome)
        )


@pytest.fixture
async def waits() -> AsyncIterator[Waits]:
    async with asyncio.TaskGroup() as tasks:
        waits = Waits(tasks)
        yield waits
        waits.background_tasks.end()


async def test_a_tenant_has_a_quarter_of_the_places_and_all_tenants_no_more_than_all(
    waits: Waits,
) -> None:
    assert [waits.take(sequence) for sequence in range(3)] == [True, True, False]
    assert [waits.take(10 + number, f"t-{number}") for number in range(7)] == [True] * 6 + [False]
    assert len(waits.refused) == 8


async def test_where_messages_are_not_sent_back_the_subscription_pauses_above_the_places_and_no_sooner() -> (
    None
):
    """The server would give up what is sent back too often. A share for each tenant would let one
    of them pause the others.
    """

    def handle(message: Message) -> Outcome:
        return Done((Effect("effects", b"", f"e-{message.sequence}"),)) if message.data else Done()

    async with a_processor(handle, store_retry=0.001, max_waiting=4, pauses_above=True) as bench:
        for sequence in (1, 2, 3, 4):
            bench.take(sequence, data=b"needs it")
        bench.publisher.refuse()
        bench.take(9)
        assert (
            len(bench.processor.settler.refused),
            bench.acks(9),
            bench.pause_switch.is_open,
        ) == (4, [ACK], True)
        bench.take(5, data=b"needs it")
        bench.publisher.refuse()
        assert (bench.acks(5), bench.pause_switch.is_open) == ([], False)
        bench.publisher.refusing = None
        await until(lambda: bench.pause_switch.is_open)
        await until(
            lambda: (
                bench.publisher.accept()
                or all(bench.acks(sequence) == [ACK] for sequence in range(1, 6))
            )
        )


async def test_a_large_one_that_does_not_fit_holds_back_no_small_one(waits: Waits) -> None:
    waits.take(1, size=1000)
    waits.take(2)
    waits.publisher.room = 10
    await until(lambda: waits.stored == [2])
    assert waits.again == [1]


async def test_when_there_is_room_again_all_go_on_and_their_places_are_free(waits: Waits) -> None:
    waits.take(1)
    waits.take(2)
    waits.publisher.room = 10
    await until(
        lambda: waits.watcher.storage == ["effects cannot be stored: maximum bytes exceeded", None]
    )
    assert (waits.stored, waits.again, len(waits.refused)) == ([1], [2], 0)
    assert [waits.take(sequence) for sequence in (3, 4)] == [True, True]


async def test_in_the_end_none_of_them_goes_on(waits: Waits) -> None:
    waits.take(1)
    waits.take(2, "tenx")
    waits.refused.abandon()
    waits.publisher.room = 10
    await until(lambda: waits.watcher.storage[-1] is None)
    assert (len(waits.refused), waits.stored, waits.again) == (0, [], [])


async def test_only_a_stream_without_room_holds_back_its_own_messages(waits: Waits) -> None:
    assert waits.refused.means(FULL)
    assert not waits.refused.means(NotPublished("effects", 0, "no publish ack in time"))
    assert not waits.refused.means(NotPublished("effects", 10008, "temporarily unavailable"))


async def test_what_an_operator_must_mend_is_told_to_requesters_alone(waits: Waits) -> None:
    asked = RefusedStorage(
        a_subscription(max_waiting=8, overloaded=lambda *_: Reply(b"")), waits.publisher
    )
    push, bad = (
        waits.pending(Done((Effect("effects", b"", "e"),))),
        waits.pending(Dead(Fault("bad", ""))),
    )
    assert waits.refused.means(SEALED)
    assert (waits.refused.is_told(push, SEALED), asked.is_told(push, SEALED)) == (False, True)
    assert (asked.is_told(push, FULL), asked.is_told(bad, SEALED)) == (False, False)


async def test_a_requester_waits_for_a_sealed_stream_no_longer_than_its_patience(
    waits: Waits,
) -> None:
    subscription = a_subscription(
        max_waiting=8, store_retry=0.001, patience=5.0, overloaded=lambda *_: Reply(b"")
    )
    refused = RefusedStorage(subscription, waits.publisher)
    now = [100.0]
    refused._now = lambda: now[0]
    waits.publisher.refusal = SEALED
    assert refused.take(waits.pending(Done((Effect("effects", b"x", "e-1"),)), 1), SEALED)
    now[0] = 104.0
    assert refused.take(waits.pending(Done((Effect("effects", b"x", "e-2"),)), 2), SEALED)
    now[0] = 105.0
    going_on = refused.retry()
    pending, result = await anext(going_on)
    assert (pending.message.sequence, result, len(refused)) == (1, SEALED, 1)
    now[0] = 109.0
    pending, result = await anext(going_on)
    assert (pending.message.sequence, result, len(refused)) == (2, SEALED, 0)
    await going_on.aclose()


async def test_what_turns_out_too_large_gives_up_alone(waits: Waits) -> None:
    waits.take(1)
    waits.take(2)
    waits.publisher.refusal = TOO_LARGE
    await until(lambda: waits.given_up == [1, 2])
    assert len(waits.refused) == 0


async def test_beyond_the_places_a_message_comes_again_and_spends_nothing(waits: Waits) -> None:
    what, pending = decide_without_place(
        waits.subscription, waits.pending(Done((Effect("effects", b"", "e"),)))
    )
    assert (what, pending.settlement.ack, pending.settlement.is_final) == (
        SENT_BACK,
        b'-NAK {"delay": 5000000000}',
        False,
    )


async def test_beyond_the_places_what_has_had_its_attempts_keeps_them_and_comes_again_for_its_dead_letter_alone(
    waits: Waits,
) -> None:
    _, exhausted = decide_without_place(waits.subscription, waits.pending(Retry(Fault("busy", ""))))
    _, handled = decide_without_place(
        waits.subscription, waits.pending(Done((Effect("effects", b"", "e"),)))
    )
    assert isinstance(exhausted.outcome, Retry)
    assert isinstance(handled.outcome, Retry)
    assert (exhausted.outcome.uses_attempt, handled.outcome.uses_attempt) == (True, False)


async def test_beyond_the_places_a_requester_hears_so_at_once(waits: Waits) -> None:
    subscription = a_subscription(
        overloaded=lambda _, seconds, __: Reply(b"in %d" % seconds), full_retry=5.0
    )
    what, pending = decide_without_place(
        subscription, waits.pending(Done((Effect("effects", b"", "e"),), Reply(b"yes")))
    )
    assert (what, pending.settlement.reply, pending.settlement.ack, pending.settlement.effects) == (
        DECLINED,
        Reply(b"in 5"),
        b"+ACK",
        (),
    )
    what, pending = decide_without_place(
        subscription, waits.pending(Dead(Fault("bad", ""), reply=Reply(b"bad")))
    )
    assert (what, pending.settlement.reply, pending.settlement.ack, pending.settlement.effects) == (
        DEAD_LETTER_OMITTED,
        Reply(b"bad"),
        b"+ACK",
        (),
    )
