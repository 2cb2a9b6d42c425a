import asyncio
from collections.abc import Awaitable, Callable

import pytest

from router.core.cancellation import preserve_cancellation

Ended = Callable[[asyncio.Future[str]], None]


def answered(waited_for: asyncio.Future[str]) -> None:
    waited_for.set_result("an answer")


def refused(waited_for: asyncio.Future[str]) -> None:
    waited_for.set_exception(ConnectionRefusedError())


async def cancelled_when_it_ends(
    end: Ended, keep: Callable[[Awaitable[str]], Awaitable[str]]
) -> asyncio.Task[str]:
    """A library's wait that ends, and is cancelled, in one turn of the loop."""
    waited_for: asyncio.Future[str] = asyncio.get_running_loop().create_future()

    async def waits() -> str:
        return await keep(asyncio.wait_for(waited_for, 5))

    task = asyncio.create_task(waits())
    await asyncio.sleep(0)  # one turn: it waits now
    end(waited_for)
    task.cancel()
    await asyncio.wait([task])
    return task


@pytest.mark.parametrize("end", [answered, refused])
async def test_a_cancellation_that_comes_with_the_end_is_kept(end: Ended) -> None:
    assert (await cancelled_when_it_ends(end, preserve_cancellation)).cancelled()


async def test_what_is_not_cancelled_answers_and_raises_as_before() -> None:
    assert await preserve_cancellation(asyncio.sleep(0, "an answer")) == "an answer"
    refusal: asyncio.Future[str] = asyncio.get_running_loop().create_future()
    refused(refusal)
    with pytest.raises(ConnectionRefusedError):
        await preserve_cancellation(refusal)
