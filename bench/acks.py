"""How fast are workers' acknowledgements taken? Stored first; then from a tenth of them on to the last that is acknowledged.

Their assignments are unknown, so each is asked for in its bucket. An acknowledgement stores nothing. The yardstick is the bare loop
that parses each and acknowledges it.
"""

from __future__ import annotations

import asyncio

from bench.broker import a_broker, jetstream_on, settings
from bench.process import figures_of
from bench.question import Broken, Figure, Measured, Question, Side, sized
from bench.sides.router import TAKING_ACKS

COUNT = 60_000


async def router(scale: float) -> Measured:
    return await _taken("bench.sides.router", "take_acks", scale)


async def bare(scale: float) -> Measured:
    return await _taken("bench.sides.bare", "swallow", scale)


async def _taken(module: str, function: str, scale: float) -> Measured:
    count = sized(COUNT, scale)
    async with a_broker(TAKING_ACKS) as url:
        await figures_of("bench.sides.store", "fill_acks", url=url, count=count)
        figures = await figures_of(module, function, url=url, first=count // 10, last=count)
        await _all_taken(url)
    return figures


async def _all_taken(url: str) -> None:
    config = settings(url)
    async with jetstream_on(url) as jetstream:
        for _ in range(40):
            info = await jetstream.consumer(config.streams.acks.name, config.acks.durable) or {}
            left: int = info["num_pending"] + info["num_ack_pending"]
            if not left:
                return
            await asyncio.sleep(0.05)
    raise Broken(f"{left} acknowledgements were not acknowledged themselves")


QUESTION = Question(
    name="acks",
    asks="How fast are workers' acknowledgements taken?",
    sides=(Side("router", router), Side("bare nats-py", bare)),
    figures=(Figure("rate", "acks/s", against="bare nats-py"),),
    lasts=(5.0, 12.0),
)
