"""TaskPool: one task goes from message to message, and what one message suffers the next does not
hear of.
"""

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable
from contextvars import ContextVar

import pytest

from router.core.errors import BrokerUnavailable
from router.core.message import Message
from router.core.outcome import Done, Fault, Outcome, Retry
from router.delivery.consume.task_pool import PooledCall, PooledOutcome, TaskPool
from tests.support.requests import a_message

TENANT: ContextVar[str] = ContextVar("tenant", default="none")
DONE, FAILED = Done(), Retry(Fault("internal", "it failed"))


class PoolOwner:
    """Who is told what came, and puts the next message when there is one."""

    def __init__(self, tasks: asyncio.TaskGroup, *, timeout_s: float = 60.0) -> None:
        self.came: list[PooledOutcome] = []
        self.by: list[asyncio.Task[None] | None] = []
        self.waiting: list[Callable[[], Awaitable[Outcome]]] = []
        self.turns: list[PooledCall] = []
        self.slots = TaskPool(
            2,
            timeout_s,
            tasks,
            on_outcome=self._heard,
            outcome_of_error=lambda _message, _exc: FAILED,
        )

    def put(self, work: Callable[[], Awaitable[Outcome]]) -> PooledCall:
        turn = PooledCall(a_message(), work())
        self.turns.append(turn)
        self.slots.put(turn)
        return turn

    def _heard(self, _message: Message, came: PooledOutcome) -> None:
        self.came.append(came)
        self.by.append(asyncio.current_task())
        if self.waiting:
            self.put(self.waiting.pop(0))


@pytest.fixture
async def processor() -> AsyncIterator[PoolOwner]:
    async with asyncio.TaskGroup() as tasks:
        owner = PoolOwner(tasks)
        yield owner
        owner.slots.close()


async def quick() -> Outcome:
    await asyncio.sleep(0)
    return DONE


async def for_ever() -> Outcome:
    await asyncio.Event().wait()
    return DONE


async def test_a_slot_goes_on_with_the_next_message_in_the_same_task(processor: PoolOwner) -> None:
    processor.waiting = [quick, quick]
    await processor.put(quick).wait_until_over()
    await processor.turns[-1].wait_until_over()
    assert processor.came == [DONE] * 3
    assert len(set(processor.by)) == 1


async def test_handlers_that_wait_are_begun_in_few_turns_of_the_loop() -> None:
    """Each turn costs a look at the sockets, and a write of what was published in it."""
    may_end, begun = asyncio.Event(), 0

    async def wait() -> Outcome:
        nonlocal begun
        begun += 1
        await may_end.wait()
        return DONE

    async with asyncio.TaskGroup() as tasks:
        pool = TaskPool(
            64,
            60.0,
            tasks,
            on_outcome=lambda _message, _outcome: None,
            outcome_of_error=lambda _message, _exc: FAILED,
        )
        for _ in range(64):
            pool.put(PooledCall(a_message(), wait()))
        for _ in range(8):  # one; then as many as have waited: 1, 2, 4, 8, 16, 32
            await asyncio.sleep(0)
        assert begun == 64
        may_end.set()
        pool.close()


async def test_one_handler_that_waits_costs_those_that_do_not_one_task() -> None:
    by: set[asyncio.Task[None] | None] = set()

    async def at_once() -> Outcome:
        by.add(asyncio.current_task())
        return DONE

    async with asyncio.TaskGroup() as tasks:
        pool = TaskPool(
            64,
            60.0,
            tasks,
            on_outcome=lambda _message, _outcome: None,
            outcome_of_error=lambda _message, _exc: FAILED,
        )
        pool.put(PooledCall(a_message(), quick()))
        for _ in range(50):
            pool.put(PooledCall(a_message(), at_once()))
        before = asyncio.all_tasks()
        for _ in range(4):
            await asyncio.sleep(0)
            before |= asyncio.all_tasks()
        pool.close()
    assert len(by) == 1
    assert len(before) <= 3  # this test's, the one that waits, and the one that begins the others


async def test_a_message_that_comes_while_its_slot_is_at_work_has_a_task_of_its_own(
    processor: PoolOwner,
) -> None:
    first, second = processor.put(quick), processor.put(quick)
    assert processor.slots.are_full
    await asyncio.sleep(0)
    await asyncio.sleep(0)
    assert first.task is not second.task
    await first.wait_until_over()
    await second.wait_until_over()
    assert not processor.slots.are_full


async def at_once() -> Outcome:
    return DONE


async def test_handlers_that_never_wait_share_one_task(processor: PoolOwner) -> None:
    calls = [processor.put(at_once) for _ in range(3)]
    await calls[-1].wait_until_over()
    assert processor.came == [DONE] * 3
    assert len({call.task for call in calls}) == 1
    assert not processor.slots.are_full


async def test_the_task_that_begins_handlers_is_there_for_the_next_turn_too(
    processor: PoolOwner,
) -> None:
    first = processor.put(at_once)
    await first.wait_until_over()
    await asyncio.sleep(0)
    second = processor.put(at_once)
    await second.wait_until_over()
    assert first.task is second.task


@pytest.mark.parametrize(("took_s", "counted"), [(0.0019, 3), (0.0021, 0)])
async def test_handlers_that_end_at_once_are_counted_until_one_waits_or_holds_the_loop(
    processor: PoolOwner, took_s: float, counted: int
) -> None:
    now = 0.0

    async def at_once() -> Outcome:
        nonlocal now
        now += took_s
        return DONE

    processor.slots._now = lambda: now
    for _ in range(3):
        await processor.put(at_once).wait_until_over()
        await asyncio.sleep(0)
    assert processor.slots.ended_at_once == counted
    calls = processor.put(quick), processor.put(at_once)
    for call in calls:
        await call.wait_until_over()
        await asyncio.sleep(0)
    # the one after it, which ended first
    assert processor.slots.ended_at_once == counted // 3


async def test_what_is_put_after_the_close_is_handled(processor: PoolOwner) -> None:
    await processor.put(at_once).wait_until_over()
    processor.slots.close()
    await processor.put(quick).wait_until_over()
    assert processor.came == [DONE] * 2


async def test_a_handler_that_waits_keeps_none_behind_it_from_beginning(
    processor: PoolOwner,
) -> None:
    waits, after = processor.put(for_ever), processor.put(at_once)
    await after.wait_until_over()
    assert (processor.came, processor.slots.running) == ([DONE], 1)
    waits.cancel()
    await waits.wait_until_over()
    assert processor.came == [DONE, None]


async def test_a_call_that_is_cancelled_before_it_begins_goes_back(processor: PoolOwner) -> None:
    first, second = processor.put(at_once), processor.put(at_once)
    first.cancel()
    await second.wait_until_over()
    assert processor.came == [None, DONE]


async def test_a_handler_that_cancels_its_own_task_takes_no_other_along(
    processor: PoolOwner,
) -> None:
    async def cancels_itself() -> Outcome:
        task = asyncio.current_task()
        assert task is not None
        task.cancel()
        return DONE

    processor.put(cancels_itself)
    after = processor.put(quick)
    await after.wait_until_over()
    assert processor.came == [DONE, DONE]


async def test_what_a_handler_raises_is_an_outcome_and_its_slot_goes_on(
    processor: PoolOwner,
) -> None:
    async def fails() -> Outcome:
        raise ValueError("broken")

    async def is_away() -> Outcome:
        raise BrokerUnavailable("away")

    processor.waiting = [is_away, quick]
    await processor.put(fails).wait_until_over()
    await processor.turns[-1].wait_until_over()
    assert [type(came) for came in processor.came] == [Retry, BrokerUnavailable, Done]


async def test_a_cancelled_message_goes_back_and_its_slot_ends(processor: PoolOwner) -> None:
    turn = processor.put(for_ever)
    await asyncio.sleep(0)
    turn.cancel()
    await turn.wait_until_over()
    assert processor.came == [None]
    assert not processor.slots.are_full


async def test_cancelling_a_call_that_is_over_leaves_the_slots_next_message_alone(
    processor: PoolOwner,
) -> None:
    processor.waiting = [quick]
    first = processor.put(quick)
    await first.wait_until_over()
    first.cancel()
    await processor.turns[-1].wait_until_over()
    assert processor.came == [DONE, DONE]


@pytest.mark.parametrize("swallows", [False, True])
async def test_a_message_that_took_too_long_leaves_its_slot_fit_for_the_next(
    swallows: bool,
) -> None:
    async def hangs() -> Outcome:
        try:
            await asyncio.Event().wait()
        except asyncio.CancelledError:
            if not swallows:
                raise
        return DONE

    async with asyncio.TaskGroup() as tasks:
        processor = PoolOwner(tasks, timeout_s=-1.0)
        processor.waiting = [cancel_itself]
        turn = processor.put(hangs)
        await asyncio.sleep(0)
        processor.slots.end_overdue()
        await turn.wait_until_over()
        await processor.turns[-1].wait_until_over()
        processor.slots.close()
    assert processor.came == [DONE if swallows else FAILED, DONE]


async def cancel_itself() -> Outcome:
    """Its task is as good as new: a timeout of its own works."""
    task = asyncio.current_task()
    assert task is not None
    assert task.cancelling() == 0
    with pytest.raises(TimeoutError):
        async with asyncio.timeout(0):
            await asyncio.Event().wait()
    return DONE


async def test_what_a_handler_leaves_in_its_context_the_next_message_does_not_see(
    processor: PoolOwner,
) -> None:
    seen: list[str] = []

    async def careless() -> Outcome:
        seen.append(TENANT.get())
        TENANT.set("acme")
        return DONE

    processor.waiting = [careless, careless]
    await processor.put(careless).wait_until_over()
    await processor.turns[1].wait_until_over()
    await processor.turns[2].wait_until_over()
    assert seen == ["none"] * 3
    assert len(set(processor.by)) == 3


async def test_a_slot_that_was_cancelled_begins_nothing_even_if_its_handler_did_not_mind(
    processor: PoolOwner,
) -> None:
    async def does_not_mind() -> Outcome:
        try:
            await asyncio.Event().wait()
        except asyncio.CancelledError:
            return DONE
        return DONE

    processor.waiting = [quick]
    turn = processor.put(does_not_mind)
    await asyncio.sleep(0)
    turn.cancel()
    await turn.wait_until_over()
    assert processor.turns[1].task is not turn.task
    await processor.turns[1].wait_until_over()


async def test_a_caller_that_leaves_does_not_end_its_pooled_call(processor: PoolOwner) -> None:
    turn = processor.put(quick)
    waiting = asyncio.create_task(turn.wait_until_over())
    await asyncio.sleep(0)
    waiting.cancel()
    await turn.wait_until_over()
    assert processor.came == [DONE]
