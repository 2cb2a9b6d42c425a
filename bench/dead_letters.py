"""How fast does poison become dead letters? Stored requests lack their text: each gets an answer,
and a dead letter before its ack.

From a tenth of them on to the last acknowledgement. The yardstick publishes the bytes that it was
given, waits for the PubAck in a callback, acks, and sends no reply.
"""

from __future__ import annotations

from bench.broker import Counts, check_counts, nothing_is_left, settings
from bench.question import Figure, Question
from bench.stored import StoredWork
from router.delivery.wire.api import JetStream


async def _check_dead_letters(url: str, count: int) -> None:
    """Broken unless each is acknowledged and has its dead letter."""
    await nothing_is_left(url, count)

    async def find(jetstream: JetStream) -> Counts:
        stream = await jetstream.stream(settings(url).streams.dlq.name) or {}
        return {"dead letters": stream["state"]["messages"]}

    await check_counts(url, find, {"dead letters": count})


POISON = StoredWork("store.fill_poisoned", 40_000, _check_dead_letters)


QUESTION = Question(
    name="dead_letters",
    asks="How fast does poison become dead letters?",
    sides=(
        POISON.side("router", "router.decide"),
        POISON.side("bare nats-py", "metering.bare_dead_letters"),
    ),
    figures=(Figure("rate", "letters/s", against="bare nats-py"),),
    lasts=(5.0, 9.0),
)
