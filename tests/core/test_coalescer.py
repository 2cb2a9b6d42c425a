"""Everything that waits is the next batch, and each item gets its own result."""

import asyncio
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager, suppress
from typing import Any

import pytest

from router.core.coalescer import Coalescer, GroupCommit
from router.core.deferred import Deferred
from router.core.message import Message
from router.core.outcome import Done, Outcome
from tests.support.delivery import a_processor
from tests.support.waiting import until


class SlowCommit:
    """Waits for `go`; an odd item's result is an error."""

    def __init__(self) -> None:
        self.batches: list[list[int]] = []
        self.go = asyncio.Event()
        self.failure: Exception | None = None

    async def __call__(self, items: Sequence[int]) -> Sequence[str | BaseException]:
        self.batches.append(list(items))
        await self.go.wait()
        if self.failure is not None:
            raise self.failure
        return [ValueError(item) if item % 2 else f"stored {item}" for item in items]


@asynccontextmanager
async def running(commits: "GroupCommit[Any, Any]") -> AsyncIterator["asyncio.Task[None]"]:
    task = asyncio.create_task(commits.run())
    try:
        yield task
    finally:
        task.cancel()
        with suppress(asyncio.CancelledError, RuntimeError):
            await task


async def test_a_queue_hands_out_the_oldest_and_waits_only_for_the_first() -> None:
    queue: Coalescer[int] = Coalescer()
    taking = asyncio.create_task(queue.take(2))
    await asyncio.sleep(0)
    for item in range(5):
        queue.add(item)
    assert [await taking, await queue.take(2), len(queue), queue.take_all(), queue.take_all()] == [
        [0, 1],
        [2, 3],
        1,
        [4],
        [],
    ]


async def test_what_is_added_while_a_batch_is_worked_on_is_the_next_one_and_each_item_gets_its_result() -> (
    None
):
    commit = SlowCommit()
    commits: GroupCommit[int, str] = GroupCommit(commit)
    async with running(commits):
        first = commits.add(0)
        await until(lambda: commit.batches)
        later = [commits.add(item) for item in (2, 3, 4)]
        commit.go.set()
        results = await asyncio.gather(
            *(_result(one) for one in (first, *later)), return_exceptions=True
        )
    assert [str(one) for one in results] == ["stored 0", "stored 2", "3", "stored 4"]
    assert commit.batches == [[0], [2, 3, 4]]


@pytest.mark.parametrize("is_run_until_empty", [False, True])
async def test_a_batch_is_no_larger_than_allowed(is_run_until_empty: bool) -> None:
    commit = SlowCommit()
    commit.go.set()
    commits: GroupCommit[int, str] = GroupCommit(commit, most=2)
    results = [commits.add(item) for item in (0, 2, 4, 6, 8)]
    if is_run_until_empty:
        await commits.run_until_empty()
    async with running(commits):
        assert [await one for one in results] == [f"stored {item}" for item in (0, 2, 4, 6, 8)]
    assert commit.batches == [[0, 2], [4, 6], [8]]


async def test_an_item_whose_result_was_cancelled_is_not_committed() -> None:
    commit = SlowCommit()
    commit.go.set()
    commits: GroupCommit[int, str] = GroupCommit(commit)
    cancelled, kept = commits.add(0), commits.add(2)
    cancelled.cancel()
    async with running(commits):
        assert await kept == "stored 2"
    assert commit.batches == [[2]]


async def test_a_commit_that_raises_ends_the_run_and_cancels_every_result() -> None:
    commit = SlowCommit()
    commit.failure = RuntimeError("the store is gone")
    commits: GroupCommit[int, str] = GroupCommit(commit)
    async with running(commits) as task:
        in_flight = commits.add(0)
        await until(lambda: commit.batches)
        waiting = commits.add(2)
        commit.go.set()
        with pytest.raises(RuntimeError, match="the store is gone"):
            await task
        after = commits.add(4)
    for result in (in_flight, waiting, after):
        with pytest.raises(asyncio.CancelledError):
            await result


async def test_a_commit_with_too_few_results_ends_the_run_and_lets_no_caller_wait() -> None:
    async def commit(items: Sequence[int]) -> Sequence[str]:
        return ["stored"] * (len(items) - 1)

    commits: GroupCommit[int, str] = GroupCommit(commit)
    first, second = commits.add(0), commits.add(2)
    with pytest.raises(ValueError, match="shorter"):
        await commits.run_until_empty()
    assert (await first, second.is_resolved) == ("stored", True)


async def test_a_processor_acks_by_batches_and_naks_the_messages_of_a_failed_one() -> None:
    go, failures, sequences = asyncio.Event(), list[Exception](), list[int]()

    async def handle(messages: Sequence[Message]) -> Sequence[Outcome]:
        sequences.extend(message.sequence for message in messages)
        await go.wait()
        if failures:
            raise failures.pop()
        return [Done() for _ in messages]

    commits: GroupCommit[Message, Outcome] = GroupCommit(handle)
    async with running(commits), a_processor(commits.add) as bench:
        bench.take(1)
        await until(lambda: sequences)
        bench.take(2)
        assert (bench.acks(1), bench.acks(2)) == ([], [])
        go.set()
        await until(lambda: bench.acks(2))
        assert (bench.acks(1), bench.acks(2)) == ([b"+ACK"], [b"+ACK"])
        failures.append(RuntimeError("gone"))
        bench.take(3)
        await until(lambda: bench.acks(3))
        assert bench.acks(3)[0].startswith(b"-NAK")


async def _result(deferred: Deferred[str]) -> str:
    return await deferred
