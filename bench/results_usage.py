"""How fast are results metered? Stored first; then from a tenth of them on to the last acknowledgement, each usage event stored before it.

JSON, or protobuf of the same content, with four headers, whole enough to be metered without their assignment. The router has
just started, so each assignment is asked for in its bucket, which holds none of them, or ("known") all. The yardstick publishes
one message for each, awaits its PubAck in a callback, and reads nothing.
"""

from __future__ import annotations

import asyncio

from bench.broker import a_broker, jetstream_on, settings
from bench.process import figures_of
from bench.question import Broken, Figure, Measured, Question, Side, at_least, at_most, sized

OUTCOMES = 60_000
PATIENCE_TURNS = 40


async def router(scale: float) -> Measured:
    return await _metered("router", "json", scale)


async def router_protobuf(scale: float) -> Measured:
    return await _metered("router", "protobuf", scale)


async def router_known(scale: float) -> Measured:
    return await _metered("router", "json", scale, is_known=True)


async def bare(scale: float) -> Measured:
    return await _metered("bare", "json", scale)


async def _metered(side: str, form: str, scale: float, *, is_known: bool = False) -> Measured:
    count = sized(OUTCOMES, scale)
    async with a_broker() as url:
        await figures_of("bench.sides.metering", "fill", url=url, count=count, form=form, is_known=is_known)
        figures = await figures_of("bench.sides.metering", side, url=url, first=count // 10, last=count)
        await _all_metered(url, count)
        return figures


async def _all_metered(url: str, count: int) -> None:
    """Broken unless each result is acknowledged and has its one usage event: a rate of work not done is none."""
    config = settings(url)
    async with jetstream_on(url) as jetstream:
        for _ in range(PATIENCE_TURNS):
            info = await jetstream.consumer(config.streams.results.name, config.results.durable) or {}
            usage = await jetstream.stream(config.streams.usage.name) or {}
            left, stored = info["num_pending"] + info["num_ack_pending"], usage["state"]["messages"]
            if (left, stored) == (0, count):
                return
            await asyncio.sleep(0.05)
    raise Broken(f"of {count} results, {left} were not acknowledged; {stored} usage events are stored")


QUESTION = Question(
    name="results_usage",
    asks="How fast are results metered?",
    sides=(
        Side("router", router),
        Side("bare nats-py", bare),
        Side("router, protobuf", router_protobuf),
        Side("router, known", router_known),
    ),
    figures=(
        Figure("rate", "results/s", target=at_least(15_000)),
        Figure("rate", "results/s", against="bare nats-py", target=at_least(0.5)),
        Figure("rate", "results/s", against="router, protobuf", target=at_most(1.1)),
        Figure("rate", "results/s", against="router, known"),
    ),
    lasts=(8.0, 24.0),
)
