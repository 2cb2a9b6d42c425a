"""What does a publish ack cost? Messages of a usage event's size, stored one at a time, and 256 at
once.

Asked in several ways (`--sync both --replicas both`), it says what the disk and two more servers
add to one ack. No router has a part in it.
"""

from __future__ import annotations

from functools import partial

from bench.broker import a_broker
from bench.family import servers_cpu_s
from bench.process import figures_of
from bench.question import Figure, Measured, Question, Side, sized

ALONE, TOGETHER = "one at a time", "256 at once"
MESSAGES = {1: 2_000, 256: 40_000}


async def publish(in_flight: int, scale: float) -> Measured:
    """What the publisher measured; CPU µs of the servers a message."""
    count = sized(MESSAGES[in_flight], scale)
    async with a_broker() as url:
        before = servers_cpu_s()
        figures = await figures_of(
            "bench.sides.publish_acks", "publish", url=url, count=count, in_flight=in_flight
        )
        return {"servers_cpu_us": (servers_cpu_s() - before) / count * 1e6, **figures}


QUESTION = Question(
    name="publish_ack",
    asks="What does a publish ack cost?",
    sides=(Side(ALONE, partial(publish, 1)), Side(TOGETHER, partial(publish, 256))),
    figures=(
        Figure("p50_ms", "ms of a publish ack, p50", is_of_acks=True),
        Figure("p99_ms", "ms of a publish ack, p99", is_of_acks=True),
        Figure("rate", "publish acks/s", of=TOGETHER, is_of_acks=True),
    ),
    lasts=(3.0, 8.0),
)
