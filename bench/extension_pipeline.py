"""What does a pipeline of three extensions cost, beside a program that makes the same three calls
with nats-py and nothing else?

The router takes its requests from the stream, decides, answers and acknowledges them on the way;
the bare program only calls. Both have 64 pipelines under way. Then one at a time: what a request
waits for the router in addition to the three calls.
"""

from __future__ import annotations

import contextlib
from collections.abc import AsyncIterator

from bench.broker import a_broker, decide_subscription, nothing_is_left
from bench.load import Load
from bench.process import a_child, figures_of
from bench.question import Figure, Measured, Question, Side, at_least, at_most, sized
from bench.stored import Arguments, StoredWork

REQUESTS = 30_000
IN_FLIGHT = 64  # decide.slots
ONE_BY_ONE = Load(warm=300, count=3_000, in_flight=1)
STORED = StoredWork("store.fill", REQUESTS)  # for the same router by a policy without extensions


def from_in_flight(_: str, count: int) -> Arguments:
    return {"first": IN_FLIGHT, "last": count}


async def router(scale: float) -> Measured:
    count = sized(REQUESTS, scale)
    async with _extensions() as url:
        await figures_of("bench.sides.store", "fill", url=url, count=count)
        figures = await figures_of(
            "bench.sides.extended", "router", url=url, first=IN_FLIGHT, last=count
        )
        await nothing_is_left(url, count)
    return {
        **figures,
        "overhead_ms": await _alone(scale)
        - (await _bare(scale, ONE_BY_ONE.count, 1))["handled_ms"],
    }


async def bare(scale: float) -> Measured:
    return await _bare(scale, REQUESTS, IN_FLIGHT)


async def _alone(scale: float) -> float:
    """p50 of handling when requests come one at a time, milliseconds."""
    load = ONE_BY_ONE.at(scale)
    async with (
        _extensions() as url,
        a_child(
            "bench.sides.extended", "router", url=url, first=load.warm, last=load.all
        ) as server,
    ):
        await server.ready()
        await figures_of(
            "bench.sides.asker",
            "ask",
            url=url,
            subject=decide_subscription(url)["subject"],
            warm=load.warm,
            count=load.count,
            in_flight=1,
        )
        return (await server.figures())["handled_ms"]


async def _bare(scale: float, count: int, in_flight: int) -> Measured:
    async with _extensions() as url:
        return await figures_of(
            "bench.sides.extended",
            "bare",
            url=url,
            warm=300,
            count=sized(count, scale),
            in_flight=in_flight,
        )


@contextlib.asynccontextmanager
async def _extensions() -> AsyncIterator[str]:
    """A broker, and the three of them on it."""
    async with a_broker() as url, a_child("bench.sides.extended", "serve", url=url) as serving:
        await serving.ready()
        yield url


QUESTION = Question(
    name="extension_pipeline",
    asks="What does a pipeline of three extensions cost?",
    sides=(
        Side("router", router),
        Side("bare nats-py", bare),
        STORED.side("no extension", "router.decide", from_in_flight),
    ),
    figures=(
        Figure("rate", "requests/s", against="bare nats-py", target=at_least(0.7)),
        Figure("overhead_ms", "ms over three bare calls, p50", target=at_most(0.5)),
        Figure("rate", "requests/s", against="no extension"),
    ),
    lasts=(11.0, 18.0),
)
