"""What does a second worker add? The same backlog, and the same live load, for one process and for two, under a parent each time.

Broker, generator and workers share the machine: on two cores a second worker gets what the broker leaves. So the columns of
what the server and the generator spend on a request stand beside the rate; the parent, which sees no request, is in `cpu_us`.
"""

from __future__ import annotations

from bench.broker import a_broker, decide_subscription, nothing_is_left
from bench.load import Load, answered
from bench.process import figures_of
from bench.question import Figure, Measured, Question, Side, at_least, sized

REQUESTS = 100_000
BEGUN = 0.1  # of them: by then every worker is at work
LOAD = Load(warm=8_000, count=40_000, in_flight=256)


async def two(scale: float) -> Measured:
    return await _backlog(scale, 2)


async def one(scale: float) -> Measured:
    return await _backlog(scale, 1)


async def two_live(scale: float) -> Measured:
    return await _live(scale, 2)


async def one_live(scale: float) -> Measured:
    return await _live(scale, 1)


async def _backlog(scale: float, workers: int) -> Measured:
    count = sized(REQUESTS, scale)
    async with a_broker() as url:
        await figures_of("bench.sides.store", "fill", url=url, count=count)
        figures = await figures_of("bench.sides.fleet", "decide", url=url, workers=workers, first=int(count * BEGUN), last=count)
        await nothing_is_left(url, count)
    return figures


async def _live(scale: float, workers: int) -> Measured:
    load = LOAD.at(scale)
    async with a_broker() as url:
        figures = await answered(load, "fleet", "decide", url=url, asked_on=decide_subscription(url)["subject"], workers=str(workers))
        await nothing_is_left(url, load.all)
    return figures


QUESTION = Question(
    name="workers",
    asks="What does a second worker add?",
    sides=(Side("two workers", two), Side("one worker", one), Side("two, live", two_live), Side("one, live", one_live)),
    figures=(
        Figure("rate", "requests/s, backlog", against="one worker", target=at_least(1.3)),
        Figure("server_cpu_us", "µs of the server a request", against="one worker"),
        Figure("rate", "requests/s, live", against="one, live", of="two, live"),
        Figure("p99_ms", "ms, p99, live", against="one, live", of="two, live"),
        Figure("server_cpu_us", "µs of the server a live request", against="one, live", of="two, live"),
        Figure("generator_cpu_us", "µs of the generator a live request", against="one, live", of="two, live"),
    ),
    lasts=(30.0, 25.0),
)
