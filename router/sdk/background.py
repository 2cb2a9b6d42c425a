"""Work that runs in the background while a block lasts, and waiting for what announces nothing."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import AsyncIterator, Awaitable, Callable, Coroutine
from typing import Any, TypeVar

from router.core.errors import Unanswered

T = TypeVar("T")

POLL_S = 0.01


@contextlib.asynccontextmanager
async def run_in_background(
    work: Callable[[Callable[[T], None]], Coroutine[Any, Any, None]], within_s: float
) -> AsyncIterator[T]:
    """Run a router, a worker, an extension server until the block ends; the block begins with what
    it announces when it is ready.

    Raises what the work raises before it is ready, and Unanswered if it is not ready within so many
    seconds.
    """
    ready: asyncio.Future[T] = asyncio.get_running_loop().create_future()
    task = asyncio.create_task(work(ready.set_result))
    try:
        both: set[asyncio.Future[Any]] = {ready, task}
        await asyncio.wait(both, timeout=within_s, return_when=asyncio.FIRST_COMPLETED)
        if task.done():
            await task
        if not ready.done():
            raise Unanswered(f"not ready within {within_s:g} s")
        yield ready.result()
    finally:
        task.cancel()
        with contextlib.suppress(asyncio.CancelledError):
            await task


async def poll(
    read: Callable[[], Awaitable[T]], is_wanted: Callable[[T], bool], within_s: float
) -> T:
    """Return what was read last: what was wanted, or what there was after so long."""
    loop = asyncio.get_running_loop()
    until = loop.time() + within_s
    while not is_wanted(found := await read()) and loop.time() < until:  # noqa: ASYNC110 - a stream is read, it announces nothing
        await asyncio.sleep(POLL_S)
    return found
