"""A bucket is unavailable: the messages that need it wait alone, up to a bound, and the others go
on.
"""

import asyncio

from router.core.errors import BrokerUnavailable, StorageRefused
from router.core.message import Message, Reply
from router.core.outcome import Done, Fault, Outcome, Retry
from router.delivery.consume.in_flight import MessageState
from router.delivery.consume.subscription import ACK, DECLINED, REFUSED, SENT_BACK
from tests.support.delivery import ProcessorBench, a_processor
from tests.support.waiting import until

BACK_AFTER_FIVE = b'-NAK {"delay": 5000000000}'
FAULT = Fault("busy", "not now")
ALONE = {"waits_alone": True, "max_waiting": 2, "full_retry": 5.0}


class Bucket:
    """What a handler needs for a message that holds data; `is_away` makes it raise."""

    def __init__(self) -> None:
        self.is_away = True
        self.cause: BrokerUnavailable = BrokerUnavailable("bucket B: no answer")
        self.calls = 0

    def handle(self, message: Message) -> Outcome:
        if message.data:
            self.calls += 1
            if self.is_away:
                raise self.cause
        return Done()


async def test_a_message_that_needs_it_waits_and_the_others_are_settled() -> None:
    bucket = Bucket()
    async with a_processor(bucket.handle, store_retry=0.001, **ALONE) as bench:
        bench.take(1, data=b"needs it")
        bench.take(2)
        assert (bench.acks(1), bench.acks(2), bench.pause_switch.is_open) == ([], [ACK], True)
        assert bench.processor.outages.cause == "bucket B: no answer"
        bucket.is_away = False
        await until(lambda: bench.acks(1) == [ACK])
        assert bench.processor.outages.cause is None
        assert bench.watcher.outages == ["bucket B: no answer", None]


async def test_a_missing_bucket_holds_back_only_what_needs_it_and_a_silent_one_pauses_the_subscription() -> (
    None
):
    """An election ends silence; a missing or sealed bucket may last until an operator acts."""
    bucket = Bucket()
    async with a_processor(
        bucket.handle, store_retry=0.001, waits_alone_for_refusal=True, max_waiting=2
    ) as bench:
        bench.take(1, data=b"needs it")
        assert not bench.pause_switch.is_open
        bucket.cause = StorageRefused("there is no bucket B")
        await until(lambda: bench.pause_switch.is_open)
        bench.take(2)
        assert (bench.acks(1), bench.acks(2)) == ([], [ACK])
        bucket.cause = BrokerUnavailable("bucket B: no answer")
        await until(lambda: not bench.pause_switch.is_open)
        assert bench.watcher.outages == ["there is no bucket B", None]
        bucket.is_away = False
        await until(lambda: bench.acks(1) == [ACK] and bench.pause_switch.is_open)


async def test_one_message_tries_again_for_all_that_wait() -> None:
    bucket = Bucket()
    async with a_processor(bucket.handle, store_retry=0.001, **ALONE) as bench:
        bench.take(1, data=b"a")
        bench.take(2, data=b"b")
        await until(lambda: bucket.calls > 10)
        states = [held.state for held in bench.processor.in_flight]
        assert states == [MessageState.UNAVAILABLE] * 2
        bucket.is_away = False
        await until(lambda: bench.acks(1) == bench.acks(2) == [ACK])


async def test_beyond_the_bound_a_requester_is_answered() -> None:
    bucket = Bucket()

    def overloaded(_: Message, seconds: float, fault: Fault) -> Reply:
        return Reply(f"{fault.code} in {seconds:g}".encode())

    async with a_processor(bucket.handle, store_retry=60, overloaded=overloaded, **ALONE) as bench:
        for sequence in (1, 2, 3):
            bench.take(sequence, data=b"needs it")
        assert (bench.acks(1), bench.acks(2), bench.acks(3)) == ([], [], [ACK])
        assert bench.replies == [b"broker_unavailable in 5"]
        assert bench.watcher.refusals == [(3, DECLINED)]


async def test_a_requester_waits_for_a_missing_bucket_no_longer_than_its_patience() -> None:
    bucket, now = Bucket(), [100.0]
    bucket.cause = StorageRefused("there is no bucket B")
    options = {**ALONE, "max_waiting": 3, "store_retry": 0.001, "patience": 5.0}
    async with a_processor(bucket.handle, overloaded=lambda *_: Reply(b""), **options) as bench:
        bench.processor._now = lambda: now[0]
        for sequence, now[0] in ((1, 100.0), (2, 100.0), (3, 104.9)):
            bench.take(sequence, data=b"needs it")
        calls = bucket.calls
        await until(lambda: bucket.calls > calls + 1)
        assert bench.watcher.refusals == []
        now[0] = 105.0
        await until(lambda: bench.publisher.asked)
        calls = bucket.calls
        await until(lambda: bucket.calls > calls + 1)
        assert bench.watcher.refusals == [(1, REFUSED), (2, REFUSED)]
        assert {effects[0].data for effects in bench.publisher.asked} == {
            b"processing_error:bucket_refuses"
        }


async def test_beyond_the_bound_a_message_without_a_requester_is_sent_back_and_spends_no_attempt() -> (
    None
):
    async with a_processor(Bucket().handle, store_retry=60, **ALONE) as bench:
        for sequence in (1, 2, 3):
            bench.take(sequence, data=b"needs it")
        assert (bench.acks(3), bench.watcher.refusals) == ([BACK_AFTER_FIVE], [(3, SENT_BACK)])


def _fail_or_settle(message: Message) -> Outcome:
    return Retry(FAULT, 0.0) if message.data else Done()


async def _let_attempts_fail(bench: ProcessorBench) -> None:
    bench.attempt_counter.is_down = True
    bench.take(1, data=b"fails")
    await until(lambda: bench.processor.outages.cause)


async def test_while_attempts_cannot_be_counted_failed_messages_wait_and_the_others_are_settled() -> (
    None
):
    async with a_processor(_fail_or_settle, store_retry=0.001, **ALONE) as bench:
        await _let_attempts_fail(bench)
        bench.take(2)
        assert (bench.acks(1), bench.acks(2), bench.pause_switch.is_open) == ([], [ACK], True)
        bench.attempt_counter.is_down = False
        await until(lambda: len(bench.acks(1)) == 1)
        assert bench.attempt_counter.counts[1] == 1


async def test_where_an_attempts_bucket_is_missing_only_what_fails_waits() -> None:
    """It is rare, so the others go on, wherever they would pause for what they all need."""
    async with a_processor(_fail_or_settle, store_retry=60, max_waiting=2) as bench:
        bench.attempt_counter.fault = StorageRefused("there is no bucket A")
        await _let_attempts_fail(bench)
        assert bench.pause_switch.is_open


async def test_beyond_the_bound_a_failed_message_is_sent_back_uncounted_and_so_are_redeliveries() -> (
    None
):
    """A redelivery without a record counts the first delivery as an attempt, so none is lost from
    the count.
    """
    async with a_processor(_fail_or_settle, store_retry=60, **ALONE) as bench:
        rooms = list[None]()
        bench.processor.settler.on_capacity = lambda: rooms.append(None)
        await _let_attempts_fail(bench)
        for sequence in (2, 3):
            bench.take(sequence, data=b"fails")
        assert (len(rooms), bench.watcher.refusals) == (1, [(3, SENT_BACK)])
        for sequence in (4, 5, 6, 7):
            bench.take(sequence, deliveries=2)
        bench.processor.tick(0.0)
        assert (bench.acks(2), bench.acks(3)) == ([], [BACK_AFTER_FIVE])
        assert [bench.acks(sequence, 2) for sequence in (6, 7)] == [[BACK_AFTER_FIVE]] * 2
        assert bench.attempt_counter.counts == {}


async def test_what_waits_is_handed_back_by_a_drain_at_once() -> None:
    async with a_processor(_fail_or_settle, store_retry=60, **ALONE) as bench:
        await _let_attempts_fail(bench)
        bench.processor.stop_taking()
        await asyncio.sleep(0)
        assert len(bench.acks(1)) == 1
