"""What do clients cost whose every request breaks the header contract? An open loop at one rate,
with valid headers and with broken ones.

Each violation is counted, logged at most once a second, and made an event. The stream of events has
so many a minute, whatever comes.
"""

from __future__ import annotations

import asyncio

from bench.broker import a_broker, decide_subscription, jetstream_on, nothing_is_left, settings
from bench.process import a_child, figures_of
from bench.question import Broken, Figure, Measured, Question, Side, at_most, sized

RATE = 5_000.0
WARM, REQUESTS = 10_000, 30_000


async def broken(scale: float) -> Measured:
    return await _measure(scale, is_broken=True)


async def valid(scale: float) -> Measured:
    return await _measure(scale, is_broken=False)


async def _measure(scale: float, *, is_broken: bool) -> Measured:
    warm, count = sized(WARM, scale, 1_000), sized(REQUESTS, scale, 1_000)
    async with a_broker() as url:
        subject = decide_subscription(url)["subject"]
        async with a_child(
            "bench.sides.router", "decide", url=url, first=warm, last=warm + count
        ) as server:
            await server.ready()
            asking = figures_of(
                "bench.sides.pacer",
                "pace_at",
                url=url,
                subject=subject,
                warm=warm,
                count=count,
                rate=RATE,
                is_broken=is_broken,
            )
            asked, served = await asyncio.gather(asking, server.figures())
        await nothing_is_left(url, warm + count)
        if asked["wrong"]:
            raise Broken(f"{asked['wrong']:.0f} of {count} answers were wrong")
        return {**served, **asked, "events": await _count_events(url)}


async def _count_events(url: str) -> float:
    async with jetstream_on(url) as jetstream:
        info = await jetstream.stream(settings(url).streams.violations.name)
        return float(info["state"]["messages"]) if info is not None else 0.0


QUESTION = Question(
    name="violations",
    asks="What do clients cost whose every request breaks the header contract, at 5000 requests/s?",
    sides=(Side("broken headers", broken), Side("valid headers", valid)),
    figures=(
        Figure("p99_ms", "ms, p99", against="valid headers", target=at_most(1.5)),
        Figure("p50_ms", "ms, p50", against="valid headers"),
        Figure("cpu_us", "µs of processor time a request", against="valid headers"),
        Figure("events", "events stored", target=at_most(100)),
    ),
    lasts=(8.0, 12.0),
)
