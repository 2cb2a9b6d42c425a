"""How long does one durable request take? Asked one at a time, beside a core NATS echo between the same two processes.

The echo stores nothing and decides nothing: the ratio is the price of durability and of the decision.
"""

from __future__ import annotations

from bench.broker import a_broker, decide_subscription
from bench.load import Load, answered
from bench.question import Figure, Measured, Question, Side, at_most

LOAD = Load(warm=500, count=5_000, in_flight=1)
ECHO = "bench.echo"


async def router(scale: float) -> Measured:
    async with a_broker() as url:
        return await answered(LOAD.at(scale), "router", "decide", url=url, asked_on=decide_subscription(url)["subject"])


async def stock_echo(scale: float) -> Measured:
    async with a_broker() as url:
        return await answered(LOAD.at(scale), "echo", "stock", url=url, asked_on=ECHO, subject=ECHO)


async def direct_echo(scale: float) -> Measured:
    async with a_broker() as url:
        return await answered(LOAD.at(scale), "echo", "direct", url=url, asked_on=ECHO, subject=ECHO)


QUESTION = Question(
    name="decide_one_by_one",
    asks="How long does one durable request take, asked one at a time?",
    sides=(Side("router", router), Side("nats-py echo", stock_echo), Side("direct echo", direct_echo)),
    figures=(
        Figure("p50_ms", "ms, p50", against="nats-py echo", target=at_most(1.4)),
        Figure("p99_ms", "ms, p99", against="nats-py echo"),
        Figure("p50_ms", "ms, p50", against="direct echo"),
    ),
    lasts=(7.0, 8.0),
)
