"""Waiting for a condition instead of for time."""

import asyncio
import os
from collections.abc import Awaitable, Callable
from pathlib import Path

SOONEST_S, LATEST_S = 0.005, 0.02
MOST_SLACK = 10.0


def slack() -> float:
    """How many times as long a deadline is here as on a quiet machine: 1 there, twice the tasks
    that share a processor elsewhere.

    Of the last minute, or at this moment: what begins just now is not in the minute's mean.
    """
    return min(
        max(1.0, 2 * max(os.getloadavg()[0], _count_running()) / (os.cpu_count() or 1)), MOST_SLACK
    )


def _count_running() -> int:
    """The other tasks that run or wait for a processor. None is counted where the system does not
    tell.
    """
    try:
        return int(Path("/proc/loadavg").read_text().split()[3].split("/")[0]) - 1
    except (OSError, ValueError, IndexError):
        return 0


async def until(
    condition: Callable[[], object | Awaitable[object]], *, within_s: float = 10.0, what: str = ""
) -> None:
    """Return as soon as `condition()` (or what it awaits) is true; fail when it is not within
    `within_s` seconds of a quiet machine.

    Asked more and more seldom: many a condition opens a connection, and what is waited for needs
    the processor.
    """
    loop = asyncio.get_running_loop()
    since, pause, most_slack = loop.time(), SOONEST_S, 1.0
    while True:
        result = condition()
        if isinstance(result, Awaitable):
            result = await result
        if result:
            return
        most_slack = max(most_slack, slack())
        if loop.time() > since + within_s * most_slack:
            raise AssertionError(f"not within {within_s} s: {what or condition}")
        await asyncio.sleep(pause)
        pause = min(pause * 1.2, LATEST_S)
