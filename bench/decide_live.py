"""How fast are live requests answered? A process asks with 256 requests in flight, each answer goes to the inbox that asked.

The bare loop has a listener too, so both sides hear every request twice: as it passes, and from the stream.
"""

from __future__ import annotations

from bench.broker import a_broker, decide_subscription, nothing_is_left
from bench.load import Load, answered
from bench.question import Figure, Measured, Question, Side, at_least

LOAD = Load(warm=4_000, count=40_000, in_flight=256)


async def router(scale: float) -> Measured:
    return await _answered(scale, "router", "decide")


async def bare(scale: float) -> Measured:
    return await _answered(scale, "bare", "live")


async def _answered(scale: float, side: str, function: str) -> Measured:
    load = LOAD.at(scale)
    async with a_broker() as url:
        decide = decide_subscription(url)
        told = decide if side == "bare" else {}
        figures = await answered(load, side, function, url=url, asked_on=decide["subject"], **told)
        await nothing_is_left(url, load.all)
    return figures


QUESTION = Question(
    name="decide_live",
    asks="How fast are live requests answered, 256 in flight?",
    sides=(Side("router", router), Side("bare nats-py", bare)),
    figures=(
        Figure("rate", "requests/s", against="bare nats-py", target=at_least(0.7)),
        Figure("p50_ms", "ms, p50", against="bare nats-py"),
        Figure("p99_ms", "ms, p99", against="bare nats-py"),
    ),
    lasts=(5.0, 6.0),
)
