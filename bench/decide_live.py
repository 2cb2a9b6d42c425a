"""How fast are live requests answered? A process asks with 256 requests in flight, each answer goes
to the inbox that asked.

The bare loop has a listener too, so both sides hear every request twice: as it passes, and from the
stream.
"""

from __future__ import annotations

from bench.broker import decide_subscription
from bench.load import Load
from bench.question import Figure, Question, at_least

LOAD = Load(warm=4_000, count=40_000, in_flight=256)


QUESTION = Question(
    name="decide_live",
    asks="How fast are live requests answered, 256 in flight?",
    sides=(
        LOAD.side("router", "router.decide"),
        LOAD.side("bare nats-py", "bare.live", decide_subscription),
    ),
    figures=(
        Figure("rate", "requests/s", against="bare nats-py", target=at_least(0.7)),
        Figure("p50_ms", "ms, p50", against="bare nats-py"),
        Figure("p99_ms", "ms, p99", against="bare nats-py"),
    ),
    lasts=(5.0, 6.0),
)
