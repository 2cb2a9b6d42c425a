"""A stock nats-py program that stores messages and waits for each publish ack."""

from __future__ import annotations

import asyncio
import time

import nats

from bench.child import Ready
from bench.figures import latencies
from bench.question import Measured
from bench.stretch import MIB, peak_bytes
from router.contracts.usage import USAGE_SUBJECT

BODY = b"u" * 400


async def publish(ready: Ready, *, url: str, count: int, in_flight: int) -> Measured:
    """Store `count` messages, so many on their way at once."""
    client = await nats.connect(url)
    numbers, seconds = iter(range(count)), list[float]()

    async def store() -> None:
        for _ in numbers:
            asked = time.perf_counter()
            await client.jetstream().publish(USAGE_SUBJECT, BODY)
            seconds.append(time.perf_counter() - asked)

    begin, cpu = time.perf_counter(), time.process_time()
    await asyncio.gather(*(store() for _ in range(in_flight)))
    figures = {
        "rate": count / (time.perf_counter() - begin),
        "cpu_us": (time.process_time() - cpu) / count * 1e6,
        "peak_mib": peak_bytes() / MIB,
        **latencies(seconds),
    }
    await client.close()
    return figures
