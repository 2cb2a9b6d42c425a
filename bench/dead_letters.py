"""How fast does poison become dead letters? Stored requests lack their text: each gets an answer, and a dead letter before its ack.

From a tenth of them on to the last acknowledgement. The yardstick publishes the bytes that it was given, waits for the PubAck in a
callback, acks, and sends no reply.
"""

from __future__ import annotations

from bench.broker import a_broker, jetstream_on, nothing_is_left, settings
from bench.process import figures_of
from bench.question import Broken, Figure, Measured, Question, Side, sized

REQUESTS = 40_000


async def router(scale: float) -> Measured:
    return await _buried("bench.sides.router", "decide", scale)


async def bare(scale: float) -> Measured:
    return await _buried("bench.sides.metering", "bare_letters", scale)


async def _buried(module: str, function: str, scale: float) -> Measured:
    count = sized(REQUESTS, scale)
    async with a_broker() as url:
        await figures_of("bench.sides.store", "fill_poisoned", url=url, count=count)
        figures = await figures_of(module, function, url=url, first=count // 10, last=count)
        await nothing_is_left(url, count)
        await _all_lettered(url, count)
    return figures


async def _all_lettered(url: str, count: int) -> None:
    """Broken unless each has its letter."""
    async with jetstream_on(url) as jetstream:
        stored = ((await jetstream.stream(settings(url).streams.dlq.name)) or {})["state"]["messages"]
    if stored != count:
        raise Broken(f"of {count} requests that cannot be decided, {stored} have a dead letter")


QUESTION = Question(
    name="dead_letters",
    asks="How fast does poison become dead letters?",
    sides=(Side("router", router), Side("bare nats-py", bare)),
    figures=(Figure("rate", "letters/s", against="bare nats-py"),),
    lasts=(5.0, 9.0),
)
