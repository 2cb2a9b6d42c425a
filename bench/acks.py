"""How fast are workers' acknowledgements taken? Stored first; then from a tenth of them on to the
last that is acknowledged.

Their assignments are unknown, so each is asked for in its bucket. An acknowledgement stores
nothing. The yardstick is the bare loop that parses each and acknowledges it.
"""

from __future__ import annotations

from bench.broker import SETTLED, Counts, check_counts, count_unsettled, settings
from bench.question import Figure, Question
from bench.sides.router import TAKING_ACKS
from bench.stored import StoredWork
from router.delivery.wire.api import JetStream


async def _check_taken(url: str, _: int) -> None:
    config = settings(url)

    async def find(jetstream: JetStream) -> Counts:
        return count_unsettled(
            await jetstream.consumer(config.streams.acks.name, config.acks.durable) or {}
        )

    await check_counts(url, find, SETTLED)


ACKS = StoredWork("store.fill_acks", 60_000, _check_taken, TAKING_ACKS)


QUESTION = Question(
    name="acks",
    asks="How fast are workers' acknowledgements taken?",
    sides=(ACKS.side("router", "router.take_acks"), ACKS.side("bare nats-py", "bare.swallow")),
    figures=(Figure("rate", "acks/s", against="bare nats-py"),),
    lasts=(5.0, 12.0),
)
