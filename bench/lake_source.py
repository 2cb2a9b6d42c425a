"""How fast is the `jetstream` source alone? Usage events stored first; then all of them read by Spark, `local[2]`, on the cores
that the broker has too: every column and header, added up, nothing written. The session has read them once before.

One process without Spark shows what the JVM costs. The yardstick is the bare loop of the same consumer: it counts messages.
"""

from __future__ import annotations

from bench.broker import a_broker
from bench.process import figures_of
from bench.question import Figure, Measured, Question, Side, at_least, sized

EVENTS = 500_000


async def spark(scale: float) -> Measured:
    return await _read("spark", scale)


async def process(scale: float) -> Measured:
    return await _read("process", scale)


async def bare(scale: float) -> Measured:
    return await _read("bare", scale)


async def _read(side: str, scale: float) -> Measured:
    count = sized(EVENTS, scale, least=2_000)
    async with a_broker() as url:
        await figures_of("bench.sides.reading", "fill", url=url, count=count)
        return await figures_of("bench.sides.reading", side, url=url, count=count)


QUESTION = Question(
    name="lake_source",
    asks="How fast is the jetstream source alone?",
    sides=(Side("in Spark", spark), Side("bare consumer", bare), Side("in one process", process)),
    figures=(
        Figure("rate", "events/s", target=at_least(100_000)),
        Figure("rate", "events/s", against="bare consumer"),
        Figure("rate", "events/s", against="in one process"),
    ),
    lasts=(25.0, 75.0),
    most_rounds=1,  # a minute and a half: the JVM starts anew, and half a million events are their own repetition
    needs=("pyspark",),
)
