"""The processor over fakes: when a handler begins, what is written down before it, and what a drain
hands back.
"""

import asyncio
from collections.abc import Awaitable, Callable
from contextlib import suppress

import pytest

from router.core.deferred import Deferred
from router.core.errors import BrokerUnavailable, Poison
from router.core.message import Effect, Message, Reply
from router.core.outcome import Dead, Done, Fault, Hold, Outcome, Retry
from router.delivery.consume import redeliveries, task_pool
from router.delivery.consume.processor import AT_ONCE_FOR_ONE_AHEAD
from tests.support.delivery import ProcessorBench, a_delivery, a_processor, token_of
from tests.support.waiting import until

NAK_AT_ONCE = b'-NAK {"delay": 10000000}'
FAULT = Fault("busy", "not now")


class Begun:
    """A handler that writes down what it was begun on, and answers what it is told to."""

    def __init__(
        self,
        outcome: Outcome | Callable[[Message], Outcome | Awaitable[Outcome]] = Done(),  # noqa: B008 - frozen
    ) -> None:
        self.messages: list[Message] = []
        self._outcome = outcome

    def __call__(self, message: Message) -> Outcome | Awaitable[Outcome]:
        self.messages.append(message)
        return self._outcome(message) if callable(self._outcome) else self._outcome

    @property
    def sequences(self) -> list[int]:
        return [message.sequence for message in self.messages]

    @property
    def attempts(self) -> list[int]:
        return [message.attempts for message in self.messages]


class Slow(Begun):
    """A handler that waits until it is told to end; what it works on is what has a slot."""

    def __init__(self) -> None:
        super().__init__()
        self.ends = asyncio.Event()
        self.cancelled = 0

    def __call__(self, message: Message) -> Awaitable[Outcome]:
        return self._wait(message)

    async def _wait(self, message: Message) -> Outcome:
        self.messages.append(message)
        try:
            await self.ends.wait()
        except asyncio.CancelledError:
            self.cancelled += 1
            raise
        return Done()


# -- the broker is away for a handler --------------------------------------------------------------


class Away(Begun):
    """A handler whose bucket is away until it is back; while it waits it takes a turn of the loop."""

    def __init__(self, *, waits: bool = True) -> None:
        super().__init__(lambda message: self._later() if waits else self._answer())
        self.is_away = True

    async def _later(self) -> Outcome:
        await asyncio.sleep(0)
        return self._answer()

    def _answer(self) -> Outcome:
        if self.is_away:
            raise BrokerUnavailable("the bucket is away")
        return Done()


@pytest.mark.parametrize("waits", [True, False])
async def test_a_handler_that_finds_the_broker_away_pauses_the_consumer_and_holds_its_message(
    waits: bool,
) -> None:
    async with a_processor(Away(waits=waits), store_retry=60) as bench:
        for sequence in (1, 2):
            bench.take(sequence)
        await until(lambda: bench.pause_switch.cause)
        assert (bench.pause_switch.cause, len(bench.processor.in_flight)) == (
            "the bucket is away",
            2,
        )
        assert (bench.acks(1), bench.watcher.alarms) == ([], [])


@pytest.mark.parametrize("waits", [True, False])
async def test_it_is_begun_again_until_it_works_and_then_the_others_are(waits: bool) -> None:
    away = Away(waits=waits)
    async with a_processor(away, store_retry=0.001) as bench:
        for sequence in (1, 2, 3):
            bench.take(sequence)
        await until(lambda: away.sequences.count(1) > 2)
        away.is_away = False
        await until(lambda: bench.acks(3))
        assert [bench.acks(sequence) for sequence in (1, 2, 3)] == [[b"+ACK"]] * 3
        assert (bench.pause_switch.is_open, set(away.attempts), len(bench.processor.in_flight)) == (
            True,
            {1},
            0,
        )


async def test_a_drain_hands_back_what_stalled_and_takes_its_start_back() -> None:
    async with a_processor(Away(), store_retry=60) as bench:
        bench.take(1, deliveries=2)
        await until(lambda: bench.pause_switch.cause)
        assert bench.attempt_counter.counts == {1: 2}
        bench.processor.stop_taking()
        assert (bench.acks(1, 2), bench.attempt_counter.counts) == ([NAK_AT_ONCE], {1: 1})
        assert await bench.processor.drain(0, 0)


# -- begin -----------------------------------------------------------------------------------------


async def test_a_first_delivery_is_begun_and_acked_before_on_delivery_returns() -> None:
    async with a_processor(Begun(Done(reply=Reply(b"yes")))) as bench:
        assert bench.take(7) is True
        assert (bench.acks(7), bench.replies, bench.attempt_counter.tries) == (
            [b"+ACK"],
            [b"yes"],
            0,
        )
        assert len(bench.processor.in_flight) == 0


async def test_a_message_is_read_from_its_token() -> None:
    begun = Begun()
    async with a_processor(begun) as bench:
        assert tell_newest(bench) == (0, 0, 0, 0, 0.0)
        bench.processor.on_delivery(
            "a.b", "$JS.ACK.hub.acc.S.C.1.42.3.1700000000000000001.9.rnd", b"data", {"x": "y"}
        )
        assert tell_newest(bench) == (1, 9, 3, 42, 1.7e9)
    (message,) = begun.messages
    assert (message.stream, message.consumer, message.deliveries, message.sequence) == (
        "S",
        "C",
        1,
        42,
    )
    assert (message.stored_ns, message.subject, message.data, message.headers) == (
        1700000000000000001,
        "a.b",
        b"data",
        {"x": "y"},
    )


def tell_newest(bench: ProcessorBench) -> tuple[float, ...]:
    """What the overload and the fleet are judged by."""
    one = bench.processor
    return one.taken, one.pending, one.delivered, one.newest_sequence, one.newest_stored_at


async def test_a_redelivery_writes_its_start_down_before_it_begins() -> None:
    marks_at_begin: list[int] = []
    async with a_processor(
        lambda message: (
            marks_at_begin.append(bench.attempt_counter.counts[message.sequence]) or Done()
        )
    ) as bench:
        assert bench.take(1, deliveries=2) is False
        assert marks_at_begin == []
        await until(lambda: bench.acks(1, 2))
        assert (marks_at_begin, bench.acks(1, 2)) == ([2], [b"+ACK"])


async def test_attempts_are_the_record_and_one() -> None:
    begun = Begun(Hold(FAULT))
    async with a_processor(begun) as bench:
        bench.take(1)
        for deliveries in (2, 3):
            bench.take(1, deliveries)
            await until(lambda deliveries=deliveries: len(begun.messages) == deliveries)
        assert begun.attempts == [1, 2, 3]


async def test_a_message_that_was_started_as_often_as_allowed_is_given_up_unread() -> None:
    begun = Begun()
    async with a_processor(begun, max_attempts=3, dead_letter_ack=b"+TERM") as bench:
        bench.attempt_counter.counts[1] = 3
        bench.take(1, deliveries=4)
        await until(lambda: bench.publisher.asked)
        bench.publisher.accept()
        assert [effect.data for effect in bench.publisher.asked[0]] == [
            b"maxdeliver_exhausted:internal"
        ]
        assert (begun.messages, bench.acks(1, 4), bench.replies) == ([], [b"+TERM"], [b"sorry"])


async def test_deliveries_alone_exhaust_nothing() -> None:
    begun = Begun()
    async with a_processor(begun) as bench:
        bench.take(1, deliveries=90)
        await until(lambda: begun.messages)
        assert begun.attempts == [2]


async def test_unexplained_redeliveries_are_begun_one_at_a_time() -> None:
    slow = Slow()
    async with a_processor(slow) as bench:
        for sequence in (1, 2, 3):
            bench.take(sequence, deliveries=2)
        await until(lambda: slow.messages)
        assert (slow.sequences, bench.attempt_counter.counts) == ([1], {1: 2})
        slow.ends.set()
        await until(lambda: bench.acks(3, 2))
        assert slow.sequences == [1, 2, 3]


async def test_with_one_attempt_allowed_a_message_that_was_never_begun_is_still_begun() -> None:
    begun = Begun()
    async with a_processor(begun, max_attempts=1) as bench:
        bench.take(1, deliveries=2)
        await until(lambda: bench.acks(1, 2))
        assert (len(begun.messages), bench.acks(1, 2), bench.publisher.asked) == (1, [b"+ACK"], [])


async def test_a_redelivery_after_our_nak_is_explained_and_counts_on() -> None:
    begun = Begun(Retry(FAULT))
    async with a_processor(begun, max_attempts=3) as bench:
        bench.take(1)
        await until(lambda: bench.acks(1))
        assert bench.take(1, deliveries=2) is True
        await until(lambda: len(begun.messages) == 2)
        assert (begun.attempts, bench.attempt_counter.counts, bench.watcher.timeouts) == (
            [1, 2],
            {1: 2},
            [],
        )


async def test_what_another_process_has_counted_since_holds_over_what_we_remember() -> None:
    """It failed here, then three times elsewhere: here nothing is left for it but its dead letter,
    and that tells all four.
    """
    begun = Begun(Retry(FAULT))
    async with a_processor(begun, max_attempts=4) as bench:
        bench.take(1)
        await until(lambda: bench.acks(1))
        bench.attempt_counter.counts[1] = 4
        bench.take(1, deliveries=5)
        await until(lambda: bench.publisher.asked)
        assert (begun.attempts, bench.attempt_counter.counts) == ([1], {1: 4})


async def test_a_first_delivery_that_fails_is_judged_by_the_count_that_all_share() -> None:
    """A server that was killed may have forgotten that it delivered the message before."""
    begun = Begun(Retry(FAULT))
    async with a_processor(begun, max_attempts=3) as bench:
        bench.attempt_counter.counts[1] = 2
        bench.take(1)
        await until(lambda: bench.publisher.asked)
        assert (bench.attempt_counter.counts, bench.acks(1)) == ({1: 3}, [])


async def test_a_failure_that_cannot_be_counted_is_held_until_it_can() -> None:
    async with a_processor(Begun(Retry(FAULT)), store_retry=0.01) as bench:
        bench.attempt_counter.is_down = True
        bench.take(1)
        await until(lambda: bench.attempt_counter.tries > 2)
        assert (bench.acks(1), bench.pause_switch.cause) == (
            [],
            "an attempt cannot be recorded: down",
        )
        bench.attempt_counter.is_down = False
        await until(lambda: bench.acks(1))
        assert bench.pause_switch.is_open


async def test_a_retry_that_spends_nothing_is_begun_again_with_the_same_count() -> None:
    begun = Begun(Retry(FAULT, uses_attempt=False))
    async with a_processor(begun, max_attempts=2) as bench:
        for deliveries in range(1, 6):
            bench.take(1, deliveries)
            await until(lambda deliveries=deliveries: len(begun.messages) == deliveries)
        assert (begun.attempts, bench.publisher.asked) == ([1, 1, 1, 1, 1], [])


async def test_a_retry_that_uses_no_attempt_never_exhausts_the_next_consumer() -> None:
    """Each delivery reaches another instance: none of them knows why it comes again."""
    begun = Begun(Retry(FAULT, uses_attempt=False))
    async with a_processor(begun, max_attempts=2) as bench:
        for deliveries in range(1, 6):
            bench.take(1, deliveries)
            await until(lambda deliveries=deliveries: len(begun.messages) == deliveries)
            bench.processor._redeliveries._sent_back.clear()
        assert bench.publisher.asked == []


async def test_a_message_settled_for_good_leaves_no_attempt_record() -> None:
    async with a_processor(Begun()) as bench:
        bench.take(1, deliveries=2)
        await until(lambda: bench.acks(1, 2))
        assert bench.attempt_counter.counts == {}


async def test_a_redelivery_that_was_on_its_way_when_its_dead_letter_was_stored_is_begun_no_more() -> (
    None
):
    """The last word may have been lost, so it is said again."""
    begun = Begun(Retry(FAULT))
    async with a_processor(begun, max_attempts=2, dead_letter_ack=b"+TERM") as bench:
        bench.take(1)
        await until(lambda: bench.acks(1))
        bench.take(1, deliveries=2)
        await until(lambda: bench.publisher.asked)
        bench.publisher.accept()
        assert bench.take(1, deliveries=3) is True
        assert (begun.attempts, bench.acks(1, 2), bench.acks(1, 3)) == (
            [1, 2],
            [b"+TERM"],
            [b"+TERM"],
        )
        assert (bench.watcher.timeouts, len(bench.processor.in_flight)) == ([1], 0)
        assert bench.attempt_counter.counts == {1: 2}, "another process may have it as well"


async def test_what_a_server_that_was_away_delivers_again_is_begun_though_it_was_settled() -> None:
    """It may have lost the ack and what was stored before it."""
    begun = Begun()
    async with a_processor(begun) as bench:
        bench.take(1, deliveries=2)
        await until(lambda: bench.acks(1, 2))
        bench.connection.reconnect_count += 1
        bench.take(1, deliveries=3)
        await until(lambda: bench.acks(1, 3))
        assert begun.sequences == [1, 1]


async def test_what_a_new_durable_delivers_again_is_begun_though_it_was_settled_in_the_old_one() -> (
    None
):
    begun = Begun()
    async with a_processor(begun) as bench:
        bench.take(1, deliveries=4)
        await until(lambda: bench.acks(1, 4))
        for times in (1, 2):
            bench.take(1, deliveries=2)
            await until(lambda times=times: len(bench.acks(1, 2)) == times)
        assert begun.sequences == [1, 1, 1]


@pytest.mark.parametrize(("after_s", "is_known"), [(59.9, True), (60.1, False)])
@pytest.mark.parametrize("outcome", [Retry(FAULT), Done()])
async def test_what_was_sent_back_or_settled_is_known_again_for_two_ack_waits(
    outcome: Outcome, after_s: float, is_known: bool
) -> None:
    """Longer than that only another instance has it."""
    async with a_processor(Begun(outcome), ack_wait=30.0) as bench:
        bench.processor._redeliveries._now = lambda: 100.0
        bench.take(1, deliveries=2)
        await until(lambda: bench.acks(1, 2))
        bench.processor._redeliveries._now = lambda: 100.0 + after_s
        bench.processor.tick(0.0)
        assert bench.take(1, deliveries=3) is is_known


@pytest.mark.parametrize("outcome", [Retry(FAULT), Done()])
async def test_of_very_many_the_oldest_is_forgotten_first(
    monkeypatch: pytest.MonkeyPatch, outcome: Outcome
) -> None:
    for most in ("MAX_SETTLED", "MAX_SENT_BACK"):
        monkeypatch.setattr(redeliveries, most, 2)
    async with a_processor(Begun(outcome), max_delayed=1) as bench:
        for sequence in (1, 2, 3):
            bench.take(sequence, deliveries=2)
        await until(lambda: bench.acks(3, 2))
        assert [bench.take(one, deliveries=3) for one in (3, 2, 1)] == [True, True, False]


async def test_while_attempts_cannot_be_recorded_nothing_begins_and_the_consumer_says_why() -> None:
    begun = Begun()
    async with a_processor(begun, store_retry=0.01) as bench:
        bench.attempt_counter.is_down = True
        bench.take(1, deliveries=2)
        await until(lambda: bench.attempt_counter.tries > 2)
        bench.take(2)
        assert (begun.messages, bench.pause_switch.cause) == (
            [],
            "an attempt cannot be recorded: down",
        )
        bench.attempt_counter.is_down = False
        await until(lambda: len(begun.messages) == 2)
        assert (sorted(begun.sequences), bench.pause_switch.is_open) == ([1, 2], True)


async def test_a_copy_of_what_is_held_is_not_begun_and_its_token_is_the_one_that_settles() -> None:
    slow = Slow()
    async with a_processor(slow) as bench:
        bench.take(1)
        assert bench.take(1, deliveries=2) is True
        assert [bench.processor.is_in_hand(a_delivery(one)) for one in (1, 2)] == [True, False]
        slow.ends.set()
        await until(lambda: bench.acks(1, 2))
        assert (len(slow.messages), bench.acks(1, 1), bench.acks(1, 2)) == (1, [], [b"+ACK"])


async def test_a_subject_outside_the_allow_list_is_sent_away_unread() -> None:
    begun = Begun()
    async with a_processor(begun, is_allowed=lambda subject: subject == "other") as bench:
        bench.take(1)
        await until(bench.acks)
        assert (begun.messages, bench.acks()) == ([], [b'-NAK {"delay": 1000000000}'])


# -- waiting ---------------------------------------------------------------------------------------


async def test_more_than_the_slots_wait_in_order() -> None:
    slow = Slow()
    async with a_processor(slow, slots=2) as bench:
        for sequence in (1, 2, 3, 4):
            bench.take(sequence)
        await until(lambda: len(slow.messages) == 2)
        assert (
            slow.sequences,
            len(bench.processor.in_flight),
            bench.processor.free_capacity(),
        ) == ([1, 2], 4, 508)
        slow.ends.set()
        await until(lambda: bench.acks(4))
        assert slow.sequences == [1, 2, 3, 4]


async def test_one_unexplained_redelivery_at_a_time_waits_for_a_slot() -> None:
    """Its attempt is counted by then: of those that waited beside it, the end of the process would
    spend one attempt each.
    """
    slow = Slow()
    async with a_processor(slow, slots=1) as bench:
        bench.take(1)
        for sequence in (2, 3, 4):
            bench.take(sequence, deliveries=2)
        await until(lambda: bench.attempt_counter.counts)
        assert bench.attempt_counter.counts == {2: 2}
        slow.ends.set()
        await until(lambda: bench.acks(4, 2))
        assert slow.sequences == [1, 2, 3, 4]


async def test_a_drain_hands_back_an_unexplained_redelivery_that_waits_for_a_slot() -> None:
    """It spends nothing, and neither do those behind it."""
    slow = Slow()
    async with a_processor(slow, slots=1) as bench:
        bench.take(1)
        for sequence in (2, 3):
            bench.take(sequence, deliveries=2)
        await until(lambda: bench.attempt_counter.counts)
        bench.processor.stop_taking()
        slow.ends.set()
        assert await bench.processor.drain(1, 2) is True
        assert (bench.acks(2, 2), bench.acks(3, 2)) == ([NAK_AT_ONCE], [NAK_AT_ONCE])
        assert (slow.sequences, bench.attempt_counter.counts) == ([1], {2: 1})


async def test_a_count_that_is_told_after_a_drain_begins_and_settles_nothing() -> None:
    """What was handed back meanwhile is another process's."""
    begun: list[int] = []

    def handle(message: Message) -> Outcome:
        begun.append(message.attempts)
        return Retry(FAULT)

    async with a_processor(handle) as bench:
        bench.take(1)
        await until(lambda: bench.watcher.settles)
        bench.take(1, deliveries=2)
        bench.take(2)
        bench.processor.stop_taking()
        await bench.processor.drain(0.0, 0.0)
        await asyncio.sleep(0)  # the counter tells in the next turn of the loop
        assert (bench.acks(1, 2), bench.acks(2)) == ([NAK_AT_ONCE], [NAK_AT_ONCE])
        assert bench.attempt_counter.counts[1] == 1
        assert (begun, bench.watcher.settles) == ([1, 1], [(1, False)])


async def test_a_slot_goes_on_while_the_effects_of_its_last_message_are_being_stored() -> None:
    begun: list[int] = []

    async def handle(message: Message) -> Outcome:
        begun.append(message.sequence)
        return Done(effects=(Effect("effects", b"", str(message.sequence)),))

    async with a_processor(handle, slots=1) as bench:
        for sequence in (1, 2, 3):
            bench.take(sequence)
        await until(lambda: begun == [1, 2, 3])
        assert bench.acks(1) == []
        bench.publisher.accept()
        assert [bench.acks(sequence) for sequence in (1, 2, 3)] == [[b"+ACK"]] * 3


async def test_what_needs_no_slot_does_not_wait_for_one() -> None:
    slow = Slow()
    async with a_processor(
        lambda message: slow(message) if message.sequence < 4 else Done(), slots=2, prefetch=4
    ) as bench:
        for sequence in (1, 2, 3, 4):
            bench.take(sequence)
        assert bench.acks(4) == [b"+ACK"]
        slow.ends.set()
        await until(lambda: bench.acks(3))


async def test_what_has_a_slot_leaves_its_place_in_the_prefetch_where_the_options_say_so() -> None:
    slow = Slow()
    async with a_processor(slow, slots=2, prefetch=10, slots_beside_prefetch=True) as bench:
        for sequence in (1, 2, 3):
            bench.take(sequence)
        # only the third, which waits for a slot, counts
        assert bench.processor.free_capacity() == 9
        slow.ends.set()
        await until(lambda: bench.acks(3))


async def test_messages_are_pulled_ahead_of_the_slots_only_while_handlers_end_at_once(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(task_pool, "AT_ONCE_S", 60.0)  # however busy the machine is
    waits = asyncio.Event()

    async def handle(message: Message) -> Outcome:
        if message.sequence > 2 * AT_ONCE_FOR_ONE_AHEAD:
            await waits.wait()
        return Done()

    async with a_processor(handle, slots=4, prefetch=6, prefetch_ahead=2) as bench:
        before = bench.processor.free_capacity()
        for sequence in range(1, 2 * AT_ONCE_FOR_ONE_AHEAD + 1):
            bench.take(sequence)
            await until(lambda sequence=sequence: bench.acks(sequence))
        at_once = bench.processor.free_capacity()
        bench.take(2 * AT_ONCE_FOR_ONE_AHEAD + 1)
        await asyncio.sleep(0)
        assert (before, at_once, bench.processor.free_capacity()) == (4, 6, 3)
        waits.set()


async def test_nothing_begins_while_the_consumer_is_paused_and_all_of_it_when_it_resumes() -> None:
    """A full prefetch: beginning what waits must not go a step deeper for each one."""
    begun = Begun(Done(reply=Reply(b"")))
    async with a_processor(begun) as bench:
        bench.pause_switch.close("publishing", "full")
        for sequence in range(1, 513):
            bench.take(sequence)
        assert (begun.messages, bench.processor.free_capacity()) == ([], 0)
        bench.pause_switch.open("publishing")
        assert begun.sequences == list(range(1, 513))
        assert len(bench.processor.in_flight) == 0


async def test_what_was_sent_away_counts_against_the_room_above_what_may_be_delayed() -> None:
    async with a_processor(Begun(Retry(FAULT, delay=600.0)), prefetch=10, max_delayed=3) as bench:
        for sequence in range(1, 6):
            bench.take(sequence)
        await until(lambda: bench.acks(5))
        assert bench.processor.free_capacity() == 8
        assert bench.processor.is_in_hand(a_delivery(5)), "it comes again"


async def test_what_may_come_again_has_room_to_come() -> None:
    """It comes by pull requests alone: all consumers stood still until it was forgotten, two ack
    waits later.
    """
    async with a_processor(Begun(Retry(FAULT, delay=0.05)), prefetch=10, max_delayed=3) as bench:
        for sequence in range(1, 14):
            bench.take(sequence)
        await until(lambda: bench.acks(13))
        await until(lambda: bench.processor.free_capacity() == 10)


# -- handlers that fail ----------------------------------------------------------------------------


def raising(
    exc: BaseException, *, waits: bool
) -> Callable[[Message], Outcome | Awaitable[Outcome]]:
    async def later(_: Message) -> Outcome:
        raise exc

    def now(_: Message) -> Outcome:
        raise exc

    return later if waits else now


@pytest.mark.parametrize("waits", [False, True])
async def test_a_handler_that_raises_is_tried_again_and_alarmed(waits: bool) -> None:
    error = ValueError("oops")
    async with a_processor(raising(error, waits=waits)) as bench:
        bench.take(1)
        await until(lambda: bench.acks())
        assert (bench.acks(), bench.watcher.alarms) == ([b'-NAK {"delay": 1000000000}'], [error])


@pytest.mark.parametrize("waits", [False, True])
async def test_a_handler_that_raises_poison_is_dead_without_an_alarm(waits: bool) -> None:
    async with a_processor(raising(Poison("never"), waits=waits)) as bench:
        bench.take(1)
        await until(lambda: bench.publisher.asked)
        assert [effect.data for effect in bench.publisher.asked[0]] == [
            b"processing_error:processing_error"
        ]
        assert bench.watcher.alarms == []


async def test_a_dead_letter_that_cannot_be_built_loses_no_message_and_is_alarmed() -> None:
    error = ValueError("no letter")

    def fail(*_: object) -> Effect | None:
        raise error

    async with a_processor(Begun(Dead(FAULT)), dead_letter=fail) as bench:
        bench.take(1)
        assert (bench.acks(), bench.watcher.alarms) == ([b'-NAK {"delay": 4000000000}'], [error])


async def test_a_handler_that_hangs_is_cancelled_and_its_attempt_is_spent() -> None:
    slow = Slow()
    async with a_processor(slow, handler_timeout=0.01) as bench:
        bench.take(1)
        await until(lambda: bench.processor.tick(0.0) or bench.acks())
        assert (bench.acks(), slow.cancelled) == ([b'-NAK {"delay": 1000000000}'], 1)


async def test_the_slot_of_a_handler_that_ignores_its_timeout_goes_to_the_next_message() -> None:
    ends = asyncio.Event()

    async def handle(message: Message) -> Outcome:
        while message.sequence == 1 and not ends.is_set():
            with suppress(asyncio.CancelledError):
                await ends.wait()
        return Done()

    async with a_processor(handle, slots=1, handler_timeout=0.01) as bench:
        bench.take(1)
        bench.take(2)
        try:
            await until(lambda: bench.processor.tick(0.0) or bench.acks(2))
            assert bench.acks(1) == []
        finally:
            ends.set()


async def test_a_cancelled_error_of_the_handlers_own_is_a_failure_and_frees_its_slot() -> None:
    """The handler awaits a future that other code cancelled: the process is not shutting down."""
    answers = iter([asyncio.CancelledError(), None])

    async def handle(_: Message) -> Outcome:
        if (error := next(answers)) is not None:
            raise error
        return Done()

    async with a_processor(handle, slots=1) as bench:
        bench.take(1)
        bench.take(2)
        await until(lambda: bench.acks(2))
        assert bench.acks(1) == [b'-NAK {"delay": 1000000000}']


async def test_a_commit_that_fails_is_tried_again() -> None:
    async def commit(_: object) -> None:
        raise OSError("away")

    async with a_processor(Begun(Done(commit=commit))) as bench:
        bench.take(1)
        await until(lambda: bench.acks())
        assert bench.acks() == [b'-NAK {"delay": 1000000000}']


# -- the end ---------------------------------------------------------------------------------------


async def test_a_drain_hands_back_what_was_never_begun_and_spends_nothing() -> None:
    slow = Slow()
    async with a_processor(slow, slots=1) as bench:
        for sequence in (1, 2, 3):
            bench.take(sequence)
        await until(lambda: slow.messages)
        bench.processor.stop_taking()
        assert (bench.acks(2), bench.acks(3), bench.attempt_counter.counts) == (
            [NAK_AT_ONCE],
            [NAK_AT_ONCE],
            {2: 0, 3: 0},
        )
        slow.ends.set()
        assert await bench.processor.drain(1, 2) is True
        assert (bench.acks(1), slow.sequences) == ([b"+ACK"], [1])


async def test_unexplained_redeliveries_that_were_never_begun_are_handed_back_uncounted() -> None:
    slow = Slow()
    async with a_processor(slow) as bench:
        bench.take(1, deliveries=2)
        bench.take(2, deliveries=2)
        await until(lambda: slow.messages)
        bench.processor.stop_taking()
        assert (bench.acks(2, 2), bench.attempt_counter.counts) == ([NAK_AT_ONCE], {1: 2})


@pytest.mark.parametrize("deliveries", [1, 2])
async def test_what_arrives_during_a_drain_is_handed_back(deliveries: int) -> None:
    begun = Begun()
    async with a_processor(begun) as bench:
        bench.processor.stop_taking()
        assert bench.take(1, deliveries) is True
        assert (bench.acks(1, deliveries), begun.messages, len(bench.processor.in_flight)) == (
            [NAK_AT_ONCE],
            [],
            0,
        )


async def test_a_redelivery_whose_start_is_about_to_be_written_down_is_begun_in_spite_of_the_drain() -> (
    None
):
    begun = Begun()
    async with a_processor(begun) as bench:
        bench.take(1, deliveries=2)
        await until(lambda: bench.attempt_counter.tries)
        bench.processor.stop_taking()
        assert await bench.processor.drain(1, 2) is True
        assert (bench.acks(1, 2), len(begun.messages)) == ([b"+ACK"], 1)


@pytest.mark.parametrize("is_expected", [True, False])
async def test_a_redelivery_that_waits_for_a_paused_consumer_is_handed_back_by_the_drain_at_once(
    is_expected: bool,
) -> None:
    begun = Begun(Retry(FAULT))
    async with a_processor(begun) as bench:
        if is_expected:
            bench.take(1)
            await until(lambda: bench.acks(1))
        bench.pause_switch.close("publishing", "full")
        bench.take(1, deliveries=2)
        bench.processor.stop_taking()
        await until(lambda: bench.acks(1, 2))
        counts = {1: 1} if is_expected else {}
        assert (bench.acks(1, 2), bench.attempt_counter.counts, len(begun.messages)) == (
            [NAK_AT_ONCE],
            counts,
            int(is_expected),
        )


async def test_work_is_cut_off_at_the_soft_deadline_and_handed_back() -> None:
    slow = Slow()
    async with a_processor(slow) as bench:
        bench.take(1)
        await until(lambda: slow.messages)
        bench.processor.stop_taking()
        assert await bench.processor.drain(0.02, 1) is False
        assert (slow.cancelled, bench.acks(1)) == (1, [NAK_AT_ONCE])


async def test_what_is_promised_takes_no_slot_and_is_handed_back_at_the_soft_deadline() -> None:
    promises: list[Deferred[Outcome]] = []

    def promising(_: Message) -> Deferred[Outcome]:
        promises.append(Deferred())
        return promises[-1]

    async with a_processor(promising, slots=1) as bench:
        bench.take(1)
        bench.take(2)
        assert len(promises) == 2
        promises[0].resolve(Done())
        bench.processor.stop_taking()
        assert await bench.processor.drain(0.01, 1) is False
        promises[1].resolve(Done())
        assert (bench.acks(1), bench.acks(2)) == ([b"+ACK"], [NAK_AT_ONCE])


async def test_a_promise_that_fails_is_a_failure_of_the_handler() -> None:
    def failing(_: Message) -> Deferred[Outcome]:
        later: Deferred[Outcome] = Deferred()
        later.resolve(ValueError("odd"))
        return later

    async with a_processor(failing) as bench:
        bench.take(1)
        await until(lambda: bench.acks(1))
        assert bench.acks(1) == [b'-NAK {"delay": 1000000000}']


async def test_what_clings_to_life_is_handed_back_at_the_hard_deadline() -> None:
    ends = asyncio.Event()

    async def stubborn(_: Message) -> Outcome:
        while not ends.is_set():
            try:
                await ends.wait()
            except asyncio.CancelledError:
                continue
        return Done()

    async with a_processor(stubborn) as bench:
        bench.take(1)
        bench.processor.stop_taking()
        assert await bench.processor.drain(0.01, 0.03) is False
        assert bench.acks(1) == [NAK_AT_ONCE]
        ends.set()


async def test_what_could_not_be_stored_is_left_to_the_next_consumer() -> None:
    async with a_processor(Begun(Done((Effect("usage", b"", "u"),)))) as bench:
        bench.take(1)
        bench.publisher.refuse()
        bench.processor.stop_taking()
        # at once: a paused subscription has nothing to wait for
        assert bench.connection.posted(token_of(1)) == [NAK_AT_ONCE]
        assert await bench.processor.drain(0.01, 0.02)
