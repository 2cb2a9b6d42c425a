"""What the console holds while browsers follow the page Now and every page is read by turns.

Its samples fill ten minutes, and its answers a table of 24: memory grows until then. So the second
quarter is compared with the last.
"""

import asyncio
from contextlib import AsyncExitStack
from itertools import cycle
from pathlib import Path
from statistics import linear_regression, median

import httpx2
from msgspec import Struct

from router.core.clock import steady
from tests.console.measure.stage import Stage, requests
from tests.support.console_pages import ADDRESSES

FOLLOWERS = 2
LOOK_EVERY_S = 2.0
MOST_GROWTH = 0.03  # of the second quarter's median
MIB = 1024 * 1024


class MemoryCourse(Struct, frozen=True):
    """`held`: (seconds, bytes resident) each second; `events`: received by all followers; `reads`:
    pages.
    """

    held: list[tuple[float, int]]
    events: int
    reads: int

    def quarter(self, number: int) -> float:
        """The median of a quarter, 0 to 3, in MiB."""
        size = len(self.held) // 4
        return median(held for _, held in self.held[number * size : (number + 1) * size]) / MIB

    def find_held(self, minute: int) -> float:
        """The median of a minute, counted from 1, in MiB."""
        return median(held for at, held in self.held if (minute - 1) * 60 <= at < minute * 60) / MIB

    @property
    def slope(self) -> float:
        """Of the second half, by least squares: MiB an hour."""
        second = self.held[len(self.held) // 2 :]
        return linear_regression(
            [at / 3600 for at, _ in second], [held / MIB for _, held in second]
        ).slope

    @property
    def is_flat(self) -> bool:
        return self.quarter(3) <= self.quarter(1) * (1 + MOST_GROWTH)


async def measure_memory(stage: Stage, minutes: float) -> MemoryCourse:
    events = [0] * FOLLOWERS
    async with AsyncExitStack() as stack:
        await stack.enter_async_context(requests(stage.broker))
        client = await stack.enter_async_context(httpx2.AsyncClient(timeout=60))
        followers = [
            asyncio.create_task(_follow(client, stage.console, events, number))
            for number in range(FOLLOWERS)
        ]
        for follower in followers:
            stack.callback(follower.cancel)
        held, reads = await _read_by_turns(client, stage, minutes)
        for follower in followers:
            assert not follower.done(), "a follower was cut off"
    return MemoryCourse(held, sum(events), reads)


async def _follow(client: httpx2.AsyncClient, console: str, events: list[int], number: int) -> None:
    async with client.stream("GET", console + "/live", timeout=None) as response:
        async for line in response.aiter_lines():
            events[number] += line.startswith("event:")


async def _read_by_turns(
    client: httpx2.AsyncClient, stage: Stage, minutes: float
) -> tuple[list[tuple[float, int]], int]:
    begun, held, reads = steady(), [], 0
    for path in cycle((*ADDRESSES, "/dead-letters?show=each")):
        response = await client.get(stage.console + path)
        assert response.status_code == 200, (path, response.status_code)
        reads += 1
        held.append((steady() - begun, read_resident(stage.pid)))
        if held[-1][0] >= minutes * 60:
            break
        await asyncio.sleep(LOOK_EVERY_S)
    return held, reads


def read_resident(pid: int) -> int:
    """Bytes of a process in memory."""
    lines = Path(f"/proc/{pid}/status").read_text().splitlines()
    return next(int(line.split()[1]) * 1024 for line in lines if line.startswith("VmRSS"))
