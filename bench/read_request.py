"""What does reading a request cost? Each of the five forms from bytes to a RouteRequest, beside
orjson's parse alone.
"""

from __future__ import annotations

from bench.process import figures_of
from bench.question import Figure, Measured, Question, Side, sized

READINGS = 100_000


async def read(scale: float) -> Measured:
    return await figures_of("bench.sides.alone", "read_forms", count=sized(READINGS, scale))


async def parse(scale: float) -> Measured:
    return await figures_of("bench.sides.alone", "parse", count=sized(READINGS, scale))


QUESTION = Question(
    name="read_request",
    asks="What does reading a request cost, form by form?",
    sides=(Side("router", read), Side("orjson", parse)),
    figures=(
        Figure("a_us", "µs, message{…}", against="orjson"),
        Figure("b_us", "µs, task{…}"),
        Figure("c_us", "µs, ids beside message{…}"),
        Figure("d_us", "µs, flat"),
        Figure("e_us", "µs, protobuf"),
    ),
    lasts=(2.0, 8.0),
    unaffected="no server",
)
