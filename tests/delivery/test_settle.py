"""Settling over fakes: one diary of what was stored, committed, answered and acked, in order."""

import asyncio
from collections.abc import AsyncIterator, Awaitable, Sequence

import pytest
from msgspec.structs import replace

from router.core.errors import BrokerUnavailable
from router.core.message import Effect, Message, Reply
from router.core.outcome import Commit, Dead, Done, Fault, Hold, Outcome, PublishAck, Then
from router.delivery.consume.in_flight import InFlight, MessageState
from router.delivery.consume.outages import Outages, PauseSwitch
from router.delivery.consume.redeliveries import RedeliveryTracker
from router.delivery.consume.settle import Settler, SharedWork
from router.delivery.consume.settlement import PendingSettlement, decide_settlement
from router.delivery.consume.subscription import DEAD_LETTER_OMITTED, REFUSED
from router.delivery.consume.task_pool import BackgroundTasks
from tests.support.delivery import (
    FakeAttemptCounter,
    FakeConnection,
    FakePublisher,
    RecordingObserver,
    a_delivery,
    a_subscription,
    token_of,
)
from tests.support.waiting import until

EFFECTS = (Effect("usage", b"1", "u-1"),)
REPLY = Reply(b"answer")


class Settling(FakeConnection):
    """A settler, and the diary that its connection, its publisher and its commits write."""

    def __init__(self, tasks: asyncio.TaskGroup) -> None:
        super().__init__()
        self.diary: list[str] = []
        self.watcher = RecordingObserver()
        self.subscription = a_subscription(store_retry=0.01, observer=self.watcher)
        self.pause_switch = PauseSwitch(lambda _: None)
        self.publisher = FakePublisher()
        self.in_flight = InFlight(self, 30)  # type: ignore[arg-type]
        self.attempt_counter = FakeAttemptCounter()
        self.background_tasks = BackgroundTasks(tasks)
        outages = Outages(self.subscription, self.pause_switch)
        redeliveries = RedeliveryTracker(self.subscription, self, self.attempt_counter, outages)  # type: ignore[arg-type]
        self.settler = Settler(
            self.subscription,
            SharedWork(
                in_flight=self.in_flight,
                redeliveries=redeliveries,
                pause_switch=self.pause_switch,
                outages=outages,
                background_tasks=self.background_tasks,
            ),
            connection=self,  # type: ignore[arg-type]
            publisher=self.publisher,  # type: ignore[arg-type]
            send_reply=lambda _, reply: self.diary.append(f"reply {reply.data.decode()}"),
        )

    @property
    def finished(self) -> list[int]:
        return [sequence for sequence, _ in self.watcher.settles]

    def publish_nowait(
        self, subject: str, data: bytes = b"", reply: str = "", head: bytes = b""
    ) -> None:
        super().publish_nowait(subject, data, reply, head)
        self.diary.append(f"ack {data.decode()}")

    def settle(self, outcome: Outcome, message: Message | None = None) -> None:
        message = message or a_delivery()
        self.settler.settle(
            PendingSettlement(
                message, outcome, decide_settlement(self.subscription, message, outcome)
            )
        )

    def accept(self) -> None:
        self.diary.append("stored")
        self.publisher.accept()

    def a_commit(self, fails: Exception | None = None) -> Commit:
        async def commit(publish_acks: Sequence[PublishAck]) -> None:
            self.diary.append(f"commit {[publish_ack.id for publish_ack in publish_acks]}")
            if fails is not None:
                raise fails

        return commit


@pytest.fixture
async def settling() -> AsyncIterator[Settling]:
    async with asyncio.TaskGroup() as tasks:
        settling = Settling(tasks)
        yield settling
        settling.background_tasks.end()


async def test_the_order_is_effects_commit_reply_ack(settling: Settling) -> None:
    settling.settle(Done(EFFECTS, REPLY, settling.a_commit()))
    assert settling.diary == []
    settling.accept()
    await until(lambda: settling.finished)
    assert settling.diary == ["stored", "commit ['u-1']", "reply answer", "ack +ACK"]


async def test_a_dead_letter_is_stored_before_its_ack(settling: Settling) -> None:
    settling.settle(Dead(Fault("bad", "")))
    assert [effect.is_dead_letter for effect in settling.publisher.asked[0]] == [True]
    assert settling.diary == []
    settling.accept()
    assert settling.diary == ["stored", "reply sorry", "ack +ACK"]


async def test_the_plain_way_keeps_the_order_too(settling: Settling) -> None:
    message = a_delivery()
    settling.settler.settle_plain(message, Done(reply=REPLY), message.ack_subject)
    assert settling.diary == ["reply answer", "ack +ACK"]
    assert settling.watcher.settles == [(1, True)]


async def test_a_commit_without_effects_runs_before_the_ack(settling: Settling) -> None:
    settling.settle(Done(commit=settling.a_commit()))
    await until(lambda: settling.finished)
    assert settling.diary == ["commit []", "ack +ACK"]


async def test_a_commit_that_waits_for_nothing_is_over_at_once(settling: Settling) -> None:
    settling.settle(Done(EFFECTS, REPLY, lambda _: settling.diary.append("commit")))
    settling.accept()
    assert settling.diary == ["stored", "commit", "reply answer", "ack +ACK"]


@pytest.mark.parametrize("waits", [True, False])
async def test_a_commit_that_fails_leaves_the_message_unanswered_and_unacked(
    settling: Settling, waits: bool
) -> None:
    def fail(_: object) -> None:
        settling.diary.append("commit ['u-1']")
        raise OSError("away")

    settling.attempt_counter.is_down = True
    settling.settle(Done(EFFECTS, REPLY, settling.a_commit(OSError("away")) if waits else fail))
    settling.accept()
    await until(lambda: settling.watcher.alarms)
    assert settling.diary == ["stored", "commit ['u-1']"]
    assert (settling.finished, a_delivery() in settling.in_flight) == ([], True)


@pytest.mark.parametrize("waits", [True, False])
async def test_what_follows_goes_the_same_way_and_then_comes_the_ack(
    settling: Settling, waits: bool
) -> None:
    async def find(done: Done | None) -> Done | None:
        return done

    def follow(done: Done | None) -> Then:
        return lambda _: find(done) if waits else done

    more = Done((Effect("held", b"2", "u-2"),), Reply(b"not sent"), then=follow(None))
    settling.settle(Done(EFFECTS, REPLY, settling.a_commit(), follow(more)))
    settling.accept()
    await until(lambda: len(settling.publisher.asked) == 2)
    assert settling.diary == ["stored", "commit ['u-1']"]
    settling.accept()
    await until(lambda: settling.finished)
    assert settling.diary == ["stored", "commit ['u-1']", "stored", "reply answer", "ack +ACK"]


@pytest.mark.parametrize("waits", [True, False])
async def test_a_failure_of_what_follows_is_one_of_the_handler(
    settling: Settling, waits: bool
) -> None:
    async def find() -> Done | None:
        raise ValueError("oops")

    def fail(_: object) -> Awaitable[Done | None]:
        if waits:
            return find()
        raise ValueError("oops")

    settling.settle(Done(EFFECTS, REPLY, then=fail))
    settling.accept()
    await until(lambda: settling.finished)
    assert settling.diary == ["stored", 'ack -NAK {"delay": 1000000000}']
    assert (len(settling.watcher.alarms), settling.watcher.settles) == (1, [(1, False)])


async def test_what_is_left_to_the_server_gets_no_ack(settling: Settling) -> None:
    settling.settle(Hold(Fault("busy", "")))
    assert (settling.diary, settling.watcher.settles) == ([], [(1, False)])


async def test_each_end_of_a_message_makes_room_for_another(settling: Settling) -> None:
    settling.settler.on_capacity = lambda: settling.diary.append("room")
    settling.settler.conclude(a_delivery(1), Done())
    settling.settle(Done(EFFECTS), a_delivery(2))
    settling.accept()
    assert settling.diary == ["ack +ACK", "room", "stored", "ack +ACK", "room"]


async def test_a_broker_that_is_away_while_it_is_found_out_what_follows_spends_no_attempt(
    settling: Settling,
) -> None:
    async def find() -> Done | None:
        raise BrokerUnavailable("away")

    settling.settle(Done(EFFECTS, REPLY, then=lambda _: find()))
    settling.accept()
    await until(lambda: settling.diary[-1] != "stored")
    assert settling.diary[1].startswith("ack -NAK")
    assert (settling.watcher.alarms, settling.watcher.settles) == ([], [(1, False)])


async def test_nothing_is_acked_while_its_publishes_are_refused(settling: Settling) -> None:
    settling.settle(Done(EFFECTS, REPLY))
    settling.publisher.refuse("full")
    assert settling.diary == []
    assert settling.pause_switch.cause == "effects cannot be stored: full"
    assert a_delivery() in settling.in_flight


async def test_what_is_refused_is_tried_again_until_it_is_stored(settling: Settling) -> None:
    settling.settle(Done(EFFECTS, REPLY))
    settling.publisher.refuse()
    await until(lambda: len(settling.publisher.asked) >= 4)
    assert settling.diary == []
    settling.publisher.refusing = None
    await until(lambda: settling.pause_switch.is_open)
    assert settling.diary == ["reply answer", "ack +ACK"]


async def test_everything_that_was_stuck_goes_on_where_it_was(settling: Settling) -> None:
    for sequence in (1, 2, 3):
        settling.settle(Done(EFFECTS), a_delivery(sequence))
    settling.publisher.refuse()
    settling.publisher.refusing = None
    await until(lambda: settling.pause_switch.is_open)
    settling.publisher.accept()
    assert settling.finished == [1, 2, 3]


async def test_what_is_refused_while_another_is_tried_again_is_published_itself(
    settling: Settling,
) -> None:
    """Message 1 came before message 2, and its publish is refused later: after a leader's death
    each waits for its own publish ack.
    """
    earlier, later = (
        Done((Effect("usage", b"1", "u-1"),), REPLY),
        Done((Effect("usage", b"2", "u-2"),)),
    )
    settling.in_flight.enter(a_delivery(1), MessageState.HANDLING)
    settling.settle(later, a_delivery(2))
    settling.publisher.refuse()
    settling.publisher.holding = asyncio.Event()
    settling.publisher.refusing = None
    await until(lambda: later.effects in settling.publisher.asked[1:])

    settling.settle(earlier, a_delivery(1))
    settling.publisher.refuse()
    settling.publisher.refusing = None
    settling.publisher.holding.set()
    await until(lambda: settling.pause_switch.is_open)
    assert (settling.finished, settling.publisher.asked[-1]) == ([2], earlier.effects)
    settling.publisher.accept()
    assert settling.watcher.publish_acks == [(2, ["u-2"]), (1, ["u-1"])]


async def test_while_one_lies_stuck_only_the_first_is_tried(settling: Settling) -> None:
    for sequence in range(1, 50):
        settling.settle(Done(EFFECTS), a_delivery(sequence))
    settling.publisher.refuse()
    await until(lambda: len(settling.publisher.asked) >= 52)
    assert settling.finished == []


async def test_a_dead_letter_that_is_refused_is_told(settling: Settling) -> None:
    settling.settle(Done(EFFECTS))
    settling.publisher.refuse("full")
    assert settling.watcher.refused == []
    settling.settle(Dead(Fault("bad", "")))
    settling.publisher.refuse("full")
    assert settling.watcher.refused == ["full"]


async def test_what_is_never_stored_as_it_is_leaves_a_dead_letter_and_that_gives_up_its_payload_and_itself(
    settling: Settling,
) -> None:
    letter = b'{"message": {"payload": "xx"}, "reason": "r"}'
    settling.settler._subscription = replace(
        settling.subscription,
        dead_letter=lambda *_: Effect("letters", letter, "l-1", is_dead_letter=True),
    )
    settling.settle(Done(EFFECTS, REPLY))
    for _ in range(3):
        settling.publisher.refuse("too large", 10054)
    assert [effects[0].data for effects in settling.publisher.asked] == [
        b"1",
        letter,
        b'{"reason":"r","payload_truncated":true,"original_payload_bytes":2}',
    ]
    assert settling.watcher.refusals == [(1, REFUSED), (1, DEAD_LETTER_OMITTED)]
    assert (settling.watcher.refused, settling.pause_switch.is_open) == (["too large"] * 2, True)
    assert settling.diary == ["reply sorry", "ack +ACK"]


async def test_the_newest_ack_subject_is_acked(settling: Settling) -> None:
    settling.settle(Done(EFFECTS))
    held = settling.in_flight.find(a_delivery())
    assert held is not None
    held.ack_subject = token_of(1, 2)
    settling.accept()
    assert settling.posts[-1].subject == token_of(1, 2)


async def test_once_stopped_it_tries_no_more(settling: Settling) -> None:
    settling.settle(Done(EFFECTS))
    settling.publisher.refuse()
    settling.background_tasks.end()
    settling.publisher.refusing = None
    await asyncio.wait([asyncio.create_task(settling.pause_switch.wait())], timeout=0.05)
    assert settling.finished == []
    settling.pause_switch.open("publishing")
