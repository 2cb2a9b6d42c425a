"""Threads for plain functions: how many at once, what a call ends with, and whom they wait for."""

import asyncio
import threading
from collections.abc import AsyncIterator
from typing import NoReturn

import pytest

from router.core.user_functions import HandlerExited
from router.sdk.threads import DaemonThreads
from tests.support.sdk import refuse_to_start


@pytest.fixture
async def threads() -> AsyncIterator[DaemonThreads]:
    threads = DaemonThreads(1, "test")
    yield threads
    threads.close()


async def test_a_call_ends_with_what_the_function_returns_or_raises(threads: DaemonThreads) -> None:
    assert await threads.acquire()
    assert await threads.call(str.upper, "a") == "A"
    assert await threads.acquire()
    with pytest.raises(ValueError, match="invalid literal"):
        await threads.call(int, "a")


@pytest.mark.parametrize(
    "error", [SystemExit(3), KeyboardInterrupt(), GeneratorExit(), StopIteration()]
)
async def test_what_would_end_a_process_is_an_error_of_the_call(
    threads: DaemonThreads, error: BaseException
) -> None:
    def raises(_: object) -> NoReturn:
        raise error

    assert await threads.acquire()
    with pytest.raises(HandlerExited, match=type(error).__name__):
        await threads.call(raises, None)


async def test_a_cancelled_call_keeps_its_thread_until_the_function_returns(
    threads: DaemonThreads,
) -> None:
    go_on = threading.Event()
    assert await threads.acquire()
    call = threads.call(lambda _: go_on.wait(10), None)
    call.cancel()
    waiting = [asyncio.create_task(threads.acquire()) for _ in range(2)]
    await asyncio.sleep(0)
    assert (threads.are_busy, threads.held) == (True, 1)
    waiting[0].cancel()  # it does not take the thread from the next one
    go_on.set()
    assert await waiting[1]
    assert (threads.are_busy, threads.held) == (True, 0)


async def test_a_thread_given_to_a_caller_that_is_cancelled_goes_to_the_next(
    threads: DaemonThreads,
) -> None:
    assert await threads.acquire()
    first, second = (asyncio.create_task(threads.acquire()) for _ in range(2))
    await asyncio.sleep(0)
    threads._release()  # as the end of a call does
    first.cancel()  # before it runs again
    assert await second


async def test_when_it_stops_no_caller_waits(threads: DaemonThreads) -> None:
    go_on = threading.Event()
    assert await threads.acquire()
    call = threads.call(lambda _: go_on.wait(10), None)
    waiting = asyncio.create_task(threads.acquire())
    await asyncio.sleep(0)
    threads.stop_waiting()
    assert [await waiting, await threads.acquire()] == [False, False]
    go_on.set()
    await call


async def test_its_threads_are_daemons_and_end_when_it_is_closed() -> None:
    threads = DaemonThreads(2, "test-ends")
    assert await threads.acquire()
    thread = await threads.call(lambda _: threading.current_thread(), None)
    assert thread.daemon
    threads.close()
    await asyncio.to_thread(thread.join, 10)
    assert not thread.is_alive()


async def test_a_thread_that_cannot_be_started_takes_no_place(
    threads: DaemonThreads, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert await threads.acquire()
    with monkeypatch.context() as patched:
        patched.setattr(threading.Thread, "start", refuse_to_start)
        with pytest.raises(RuntimeError, match="can't start new thread"):
            threads.call(str.upper, "a")
    assert (threads.are_busy, threads.held) == (False, 0)
    assert await threads.acquire()
    async with asyncio.timeout(60):
        assert await threads.call(str.upper, "a") == "A"


async def test_the_next_caller_gets_the_place_of_a_thread_that_cannot_be_started(
    threads: DaemonThreads, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert await threads.acquire()
    waiting = asyncio.create_task(threads.acquire())
    await asyncio.sleep(0)
    monkeypatch.setattr(threading.Thread, "start", refuse_to_start)
    with pytest.raises(RuntimeError, match="can't start new thread"):
        threads.call(str.upper, "a")
    async with asyncio.timeout(30):
        assert await waiting
