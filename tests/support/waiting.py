"""Waiting for a condition instead of for time."""

import asyncio
from collections.abc import Awaitable, Callable


async def until(condition: Callable[[], object | Awaitable[object]], *, within_s: float = 10.0, what: str = "") -> None:
    """Return as soon as `condition()` (or what it awaits) is true; fail when it is not within `within_s` seconds."""
    loop = asyncio.get_running_loop()
    deadline = loop.time() + within_s
    while True:
        result = condition()
        if isinstance(result, Awaitable):
            result = await result
        if result:
            return
        if loop.time() > deadline:
            raise AssertionError(f"not within {within_s} s: {what or condition}")
        await asyncio.sleep(0.005)
