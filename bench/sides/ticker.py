"""The router with a ticker on its loop: how late is what should happen every millisecond?"""

from __future__ import annotations

import asyncio
import time

from bench.child import Ready
from bench.figures import latencies
from bench.question import Measured
from bench.sides.router import a_router, settled
from bench.stretch import MIB, peak_bytes, reaches

TICK_S = 0.001


async def tick(ready: Ready, *, url: str, count: int, seconds: float) -> Measured:
    """Decide `count` stored requests, then tick for `seconds`: by how much the ticks came too late."""
    http = asyncio.get_running_loop().create_future()
    async with a_router(url, lambda address: http.set_result(address.http)) as service:
        await reaches(settled(service), count)
        ready(http=await http)
        return {**latencies(await _lateness(seconds)), "peak_mib": peak_bytes() / MIB}


async def _lateness(seconds: float) -> list[float]:
    late: list[float] = []
    now = time.perf_counter()
    end = now + seconds
    while now < end:
        due = now + TICK_S
        await asyncio.sleep(TICK_S)
        now = time.perf_counter()
        late.append(now - due)
    return late
