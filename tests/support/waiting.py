"""Waiting for a condition instead of for time."""

import asyncio
import os
from collections.abc import Awaitable, Callable

SOONEST_S, LATEST_S = 0.005, 0.02
MOST_SLACK = 10.0


def slack() -> float:
    """How many times as long a deadline is here as on a quiet machine: 1 there, twice the tasks that share a processor elsewhere."""
    return min(max(1.0, 2 * os.getloadavg()[0] / (os.cpu_count() or 1)), MOST_SLACK)


async def until(condition: Callable[[], object | Awaitable[object]], *, within_s: float = 10.0, what: str = "") -> None:
    """Return as soon as `condition()` (or what it awaits) is true; fail when it is not within `within_s` seconds of a quiet machine.

    Asked more and more seldom: many a condition opens a connection, and what is waited for needs the processor.
    """
    loop = asyncio.get_running_loop()
    since, pause = loop.time(), SOONEST_S
    while True:
        result = condition()
        if isinstance(result, Awaitable):
            result = await result
        if result:
            return
        if loop.time() > since + within_s * slack():
            raise AssertionError(f"not within {within_s} s: {what or condition}")
        await asyncio.sleep(pause)
        pause = min(pause * 1.2, LATEST_S)
