"""Waiting for a condition instead of for time."""

import asyncio
from collections.abc import Awaitable, Callable

SOONEST_S, LATEST_S = 0.005, 0.02


async def until(condition: Callable[[], object | Awaitable[object]], *, within_s: float = 10.0, what: str = "") -> None:
    """Return as soon as `condition()` (or what it awaits) is true; fail when it is not within `within_s` seconds.

    Asked more and more seldom: many a condition opens a connection, and what is waited for needs the processor.
    """
    loop = asyncio.get_running_loop()
    deadline, pause = loop.time() + within_s, SOONEST_S
    while True:
        result = condition()
        if isinstance(result, Awaitable):
            result = await result
        if result:
            return
        if loop.time() > deadline:
            raise AssertionError(f"not within {within_s} s: {what or condition}")
        await asyncio.sleep(pause)
        pause = min(pause * 1.2, LATEST_S)
