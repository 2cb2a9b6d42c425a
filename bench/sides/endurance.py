"""The router over a long run, looked at after every hundredth of it."""

from __future__ import annotations

from itertools import pairwise
from statistics import median

from bench.broker import Given
from bench.child import Ready
from bench.question import Measured
from bench.sides.router import a_router, settled
from bench.stretch import MIB, Look, peak_bytes, reaches, resident_bytes

SLICES = 100


async def decide(ready: Ready, *, url: str, count: int, given: Given) -> Measured:
    """Serve `count` requests: CPU per decision in the first and the last tenth (medians of slices),
    memory on the way.
    """
    looks: list[Look] = []
    resident: list[float] = []
    async with a_router(url, lambda address: ready(http=address.http), given) as service:
        done = settled(service)
        before, _ = await reaches(done, 1)
        looks.append(before)
        for number in range(1, SLICES + 1):
            _, after = await reaches(done, count * number // SLICES)
            looks.append(after)
            resident.append(resident_bytes() / MIB)
    return {**_work(looks), **_memory(resident)}


def _work(looks: list[Look]) -> dict[str, float]:
    # Two looks may be the same one when a slice is shorter than the time between looks (a small
    # volume): then tenths are the whole.
    slices = [
        (b.cpu - a.cpu) / (b.done - a.done) * 1e6 for a, b in pairwise(looks) if b.done > a.done
    ]
    tenths = [
        median(slices[len(slices) * n // 10 : len(slices) * (n + 1) // 10] or slices)
        for n in range(10)
    ]
    begin, end = looks[0], looks[-1]
    done = end.done - begin.done
    return {
        **{f"cpu_{10 * (n + 1)}_us": cost for n, cost in enumerate(tenths)},
        "cpu_drift": tenths[-1] / tenths[0],
        "cpu_us": (end.cpu - begin.cpu) / done * 1e6,
        "rate": done / (end.wall - begin.wall),
    }


def _memory(resident: list[float]) -> dict[str, float]:
    at = {percent: resident[len(resident) * percent // 100 - 1] for percent in (10, 50, 75, 100)}
    named = {f"rss_{percent}_mib": value for percent, value in at.items()}
    return {**named, "growth": at[100] / at[75], "peak_mib": peak_bytes() / MIB}
