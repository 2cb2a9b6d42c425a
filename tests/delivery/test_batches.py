"""Many messages at once: the messages that wait are the next batch, and each one is settled."""

import asyncio
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager, suppress

import pytest

from router.core.deferred import Deferred
from router.core.message import Message
from router.core.outcome import Done, Outcome
from router.delivery.batches import Batches
from tests.support.delivery import a_delivery, a_processor
from tests.support.waiting import until


class Slow:
    """A batch handler that waits to be told."""

    def __init__(self) -> None:
        self.batches: list[list[int]] = []
        self.go = asyncio.Event()
        self.failure: Exception | None = None

    async def __call__(self, messages: Sequence[Message]) -> Sequence[Outcome]:
        self.batches.append([message.sequence for message in messages])
        await self.go.wait()
        if self.failure is not None:
            raise self.failure
        return [Done() for _ in messages]


@asynccontextmanager
async def running(batches: Batches) -> AsyncIterator["asyncio.Task[None]"]:
    task = asyncio.create_task(batches.run())
    try:
        yield task
    finally:
        task.cancel()
        with suppress(asyncio.CancelledError, RuntimeError):
            await task


async def test_what_comes_while_a_batch_is_at_work_is_the_next_one() -> None:
    slow = Slow()
    batches = Batches(slow)
    async with running(batches):
        first = batches.take(a_delivery(1))
        await until(lambda: slow.batches)
        later = [batches.take(a_delivery(number)) for number in (2, 3, 4)]
        slow.go.set()
        assert await first == Done()
        assert [await one for one in later] == [Done(), Done(), Done()]
    assert slow.batches == [[1], [2, 3, 4]]


async def test_a_batch_is_no_larger_than_allowed() -> None:
    slow = Slow()
    slow.go.set()
    batches = Batches(slow, most=2)
    waiting = [batches.take(a_delivery(number)) for number in range(1, 6)]
    async with running(batches):
        for one in waiting:
            await one
    assert slow.batches == [[1, 2], [3, 4], [5]]


async def test_one_that_was_taken_back_is_not_worked_on() -> None:
    slow = Slow()
    slow.go.set()
    batches = Batches(slow)
    gone, kept = batches.take(a_delivery(1)), batches.take(a_delivery(2))
    gone.cancel()
    async with running(batches):
        assert await kept == Done()
    assert slow.batches == [[2]]


async def test_a_handler_that_fails_ends_the_batches_and_everybody_is_told() -> None:
    slow = Slow()
    slow.failure = RuntimeError("the store is gone")
    batches = Batches(slow)
    async with running(batches) as task:
        in_hand = batches.take(a_delivery(1))
        await until(lambda: slow.batches)
        waiting = batches.take(a_delivery(2))
        slow.go.set()
        with pytest.raises(RuntimeError, match="the store is gone"):
            await task
        after = batches.take(a_delivery(3))
    for later in (in_hand, waiting, after):
        assert await _is_cancelled(later)


async def _is_cancelled(later: Deferred[Outcome]) -> bool:
    came: list[object] = []
    later.add_callback(came.append)
    return isinstance(came[0], asyncio.CancelledError)


async def test_a_desk_acknowledges_by_batches_and_sends_back_what_a_failed_one_held() -> None:
    slow = Slow()
    batches = Batches(slow)
    async with running(batches), a_processor(batches.take) as bench:
        bench.take(1)
        await until(lambda: slow.batches)
        bench.take(2)
        assert (bench.acks(1), bench.acks(2)) == ([], [])
        slow.go.set()
        await until(lambda: bench.acks(2))
        assert (bench.acks(1), bench.acks(2)) == ([b"+ACK"], [b"+ACK"])
        slow.failure = RuntimeError("gone")
        bench.take(3)
        await until(lambda: bench.acks(3))
        assert bench.acks(3)[0].startswith(b"-NAK")
