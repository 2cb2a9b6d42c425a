"""An awaitable begun by hand, and awaited for the rest: it notices no difference."""

import asyncio
from collections.abc import Awaitable, Callable

import pytest

from router.core.deferred import RemainingSteps


async def go_on(work: Awaitable[str]) -> str:
    """Begin it, then await the rest in the same task."""
    steps = work.__await__()
    try:
        waits_for = next(steps)
    except StopIteration as ended:
        return f"at once: {ended.value}"
    return await RemainingSteps(steps, waits_for)


async def test_what_never_waits_has_its_value_at_once() -> None:
    async def answer() -> str:
        return "done"

    assert await go_on(answer()) == "at once: done"


async def test_what_waits_several_times_ends_with_its_value() -> None:
    async def answer() -> str:
        await asyncio.sleep(0)
        await asyncio.sleep(0.001)
        return "done"

    assert await go_on(answer()) == "done"


async def test_a_future_may_be_awaited_so() -> None:
    future: asyncio.Future[str] = asyncio.get_running_loop().create_future()
    asyncio.get_running_loop().call_soon(future.set_result, "done")
    assert await go_on(future) == "done"


async def test_what_it_raises_after_it_waited_is_raised() -> None:
    async def fails() -> str:
        await asyncio.sleep(0)
        raise ValueError("no")

    with pytest.raises(ValueError, match="no"):
        await go_on(fails())


async def swallow(wait: Callable[[], Awaitable[object]]) -> str:
    try:
        await wait()
    except asyncio.CancelledError:
        return "cancelled"
    return "done"


async def wait_again() -> object:
    try:
        return await asyncio.sleep(60)
    except asyncio.CancelledError:
        return await asyncio.sleep(60)


@pytest.mark.parametrize("cancellations", [1, 2])
async def test_a_cancellation_comes_to_where_it_waits(cancellations: int) -> None:
    """One that it swallows, too: it waits for something else then."""

    async def sleep_long() -> object:
        return await asyncio.sleep(60)

    task = asyncio.create_task(go_on(swallow(sleep_long if cancellations == 1 else wait_again)))
    for _ in range(cancellations):
        await asyncio.sleep(0)
        task.cancel()
    assert await task == "cancelled"


async def test_a_timeout_within_it_is_its_own() -> None:
    async def times_out() -> str:
        try:
            async with asyncio.timeout(0):
                await asyncio.sleep(60)
        except TimeoutError:
            return "too late"
        return "done"

    assert await asyncio.create_task(go_on(times_out())) == "too late"
