"""How late the suite's own event loop is. All routes between the servers pass it, and so does every
connection of our processes.

On a machine that is too busy each message of the servers among themselves waits here, so the run
tells of the suite, not of the cluster.
"""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import AsyncIterator

LOOK_EVERY_S = 0.1
MOST = 0.99  # of the looks are not later than what is told


class Lateness:
    """Seconds by which each look came too late."""

    def __init__(self) -> None:
        self._each: list[float] = []

    @property
    def seconds(self) -> float:
        """99 of 100 looks were not later."""
        ordered = sorted(self._each) or [0.0]
        return ordered[min(len(ordered) - 1, int(len(ordered) * MOST))]

    async def run(self) -> None:
        loop = asyncio.get_running_loop()
        while True:
            due = loop.time() + LOOK_EVERY_S
            await asyncio.sleep(LOOK_EVERY_S)
            self._each.append(loop.time() - due)


@contextlib.asynccontextmanager
async def measure_lateness() -> AsyncIterator[Lateness]:
    lateness = Lateness()
    looking = asyncio.create_task(lateness.run())
    try:
        yield lateness
    finally:
        looking.cancel()
