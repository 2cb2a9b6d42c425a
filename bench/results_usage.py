"""How fast are results metered? Stored first; then from a tenth of them on to the last
acknowledgement, each usage event stored before it.

JSON, or protobuf of the same content, with four headers, whole enough to be metered without their
assignment. The router has just started, so each assignment is asked for in its bucket, which holds
none of them, or ("known") all. The yardstick publishes one message for each, awaits its PubAck in a
callback, and reads nothing.
"""

from __future__ import annotations

from bench.broker import SETTLED, Counts, check_counts, count_unsettled, settings
from bench.question import Figure, Question, at_least, at_most
from bench.stored import StoredWork
from router.delivery.wire.api import JetStream


async def _check_metered(url: str, count: int) -> None:
    """Broken unless each result is acknowledged and has its one usage event."""
    config = settings(url)

    async def find(jetstream: JetStream) -> Counts:
        results = (
            await jetstream.consumer(config.streams.results.name, config.results.durable) or {}
        )
        usage = await jetstream.stream(config.streams.usage.name) or {}
        return {**count_unsettled(results), "usage events": usage["state"]["messages"]}

    await check_counts(url, find, {**SETTLED, "usage events": count})


RESULTS = StoredWork("metering.fill", 60_000, _check_metered)
JSON, PROTOBUF = {"form": "json", "is_known": False}, {"form": "protobuf", "is_known": False}


QUESTION = Question(
    name="results_usage",
    asks="How fast are results metered?",
    sides=(
        RESULTS.side("router", "metering.router", fill=JSON),
        RESULTS.side("bare nats-py", "metering.bare", fill=JSON),
        RESULTS.side("router, protobuf", "metering.router", fill=PROTOBUF),
        RESULTS.side("router, known", "metering.router", fill={**JSON, "is_known": True}),
    ),
    figures=(
        Figure("rate", "results/s", target=at_least(15_000)),
        Figure("rate", "results/s", against="bare nats-py", target=at_least(0.5)),
        Figure("rate", "results/s", against="router, protobuf", target=at_most(1.1)),
        Figure("rate", "results/s", against="router, known"),
    ),
    lasts=(8.0, 24.0),
)
