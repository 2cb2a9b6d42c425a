"""How fast is a backlog decided? Requests are stored first; then from the first pull to the last acknowledgement.

JSON with four headers, a policy with weights and sticky sessions, metrics on, answers to the reply subject.
"""

from __future__ import annotations

import contextlib
from collections.abc import AsyncIterator

from bench.broker import a_broker, decide_subscription, nothing_is_left
from bench.process import figures_of
from bench.question import Figure, Measured, Question, Side, at_least, sized

REQUESTS = 100_000
REQUESTS_OF_FASTSTREAM = 10_000  # its rate does not depend on it
REQUESTS_FETCHED = 30_000


async def router(scale: float) -> Measured:
    count = sized(REQUESTS, scale)
    async with _backlog_of(count) as url:
        return await figures_of("bench.sides.router", "decide", url=url, first=1, last=count)


async def bare(scale: float) -> Measured:
    count = sized(REQUESTS, scale)
    async with _backlog_of(count) as url:
        return await figures_of("bench.sides.bare", "backlog", url=url, last=count, **decide_subscription(url))


async def fetch(scale: float) -> Measured:
    count = sized(REQUESTS_FETCHED, scale)
    async with _backlog_of(count) as url:
        return await figures_of("bench.sides.fetch", "backlog", url=url, last=count, **decide_subscription(url))


async def typed_stream(scale: float) -> Measured:
    return await _stream("typed", scale)


async def untyped_stream(scale: float) -> Measured:
    return await _stream("untyped", scale)


async def _stream(way: str, scale: float) -> Measured:
    count = sized(REQUESTS_OF_FASTSTREAM, scale)
    async with _backlog_of(count) as url:
        return await figures_of("bench.sides.stream", way, url=url, last=count, **decide_subscription(url))


@contextlib.asynccontextmanager
async def _backlog_of(count: int) -> AsyncIterator[str]:
    """A broker with that many requests, of which none may be left."""
    async with a_broker() as url:
        await figures_of("bench.sides.store", "fill", url=url, count=count)
        yield url
        await nothing_is_left(url, count)


QUESTION = Question(
    name="decide_backlog",
    asks="How fast is a backlog decided?",
    sides=(
        Side("router", router),
        Side("bare nats-py", bare),
        Side("nats-py fetch", fetch),
        Side("FastStream", typed_stream),
        Side("FastStream, untyped", untyped_stream),
    ),
    figures=(
        Figure("rate", "requests/s", against="bare nats-py", target=at_least(0.6)),
        Figure("rate", "requests/s", against="nats-py fetch"),
        Figure("rate", "requests/s", against="FastStream", target=at_least(5)),
        Figure("rate", "requests/s", against="FastStream, untyped"),
    ),
    lasts=(8.0, 26.0),
    needs=("faststream",),
)
