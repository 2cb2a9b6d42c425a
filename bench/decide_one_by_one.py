"""How long does one durable request take? Asked one at a time, beside a core NATS echo between the
same two processes.

The echo stores nothing and decides nothing: the ratio is the price of durability and of the
decision.
"""

from __future__ import annotations

from bench.load import Load
from bench.question import Figure, Question, at_most

LOAD = Load(warm=500, count=5_000, in_flight=1)
ECHO = "bench.echo"


def at_echo(_: str) -> dict[str, str]:
    return {"subject": ECHO}


QUESTION = Question(
    name="decide_one_by_one",
    asks="How long does one durable request take, asked one at a time?",
    sides=(
        LOAD.side("router", "router.decide"),
        LOAD.side("nats-py echo", "echo.stock", at_echo, subject=ECHO),
        LOAD.side("direct echo", "echo.direct", at_echo, subject=ECHO),
    ),
    figures=(
        Figure("p50_ms", "ms, p50", against="nats-py echo", target=at_most(1.4)),
        Figure("p99_ms", "ms, p99", against="nats-py echo"),
        Figure("p50_ms", "ms, p50", against="direct echo"),
    ),
    lasts=(7.0, 8.0),
)
