"""What does a failure cost? Every message fails once, is sent away with a NAK, comes again, is started anew and acknowledged.

Delivery alone with a handler that does nothing: a failed first delivery and each later attempt is counted, its PubAck awaited, before the
handler runs, and the window falls to one message (it kept a poison message's neighbours safe). The yardstick is the same subscription,
undisturbed.
"""

from __future__ import annotations

from functools import partial

from bench.broker import a_broker, nothing_is_left
from bench.process import figures_of
from bench.question import Figure, Measured, Question, Side, sized

MESSAGES = 100_000
FAILING = 10_000


async def _settled(full: int, failures: int, scale: float) -> Measured:
    count = sized(full, scale)
    async with a_broker() as url:
        await figures_of("bench.sides.store", "fill", url=url, count=count)
        figures = await figures_of("bench.sides.failing", "settle", url=url, failures=failures, first=count // 10, last=count)
        await nothing_is_left(url, count)
    return figures


QUESTION = Question(
    name="redelivery_cost",
    asks="What does a failure cost?",
    sides=(Side("failed once", partial(_settled, FAILING, 1)), Side("undisturbed", partial(_settled, MESSAGES, 0))),
    figures=(Figure("rate", "messages/s", against="undisturbed"), Figure("cpu_us", "CPU µs/message", against="undisturbed")),
    lasts=(5.0, 10.0),
)
