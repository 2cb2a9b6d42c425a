"""One file of processed keys, two streams: what was processed of one is not taken for processed of
the other.
"""

from pathlib import Path

import pytest

from router.bus import BucketProcessed, BusSettings, MemoryProcessed, Processed, SqliteProcessed
from router.bus.consumer import EnvelopeProcessor
from router.contracts.envelope import MessageEnvelope, envelope_bytes
from router.core.message import Message
from router.core.outcome import Done
from router.delivery.wire.api import JetStream
from tests.support.bus import an_envelope
from tests.support.delivery import connected


@pytest.mark.parametrize("kind", ["memory", "sqlite", "bucket"])
async def test_the_same_key_in_another_stream_is_another_message(
    kind: str, tmp_path: Path, nats_url: str, prefix: str
) -> None:
    """SR-23: events and commands may share a consumer's name and its store."""
    handled: list[str] = []
    async with connected(nats_url) as connection:
        stores: dict[str, Processed] = {
            "memory": MemoryProcessed(),
            "sqlite": SqliteProcessed(tmp_path / "keys.db", "sr-consumer-one"),
            "bucket": BucketProcessed(
                JetStream(connection), f"{prefix}_keys", "sr-consumer-one", ttl_s=60
            ),
        }
        await stores[kind].open()
        for stream in ("sr-events", "sr-commands", "sr-events"):
            await handle_one(stores[kind], stream, handled)
        await stores[kind].close()
    assert handled == ["sr-events", "sr-commands"]


async def handle_one(store: Processed, stream: str, handled: list[str]) -> None:
    """A consumer of this stream is given the same envelope."""

    def handle(_: MessageEnvelope) -> None:
        handled.append(stream)

    message = Message(
        "sr.any", envelope_bytes(an_envelope(1)), {}, stream, "sr-consumer-one", 1, 1, 1, ""
    )
    outcome = EnvelopeProcessor(BusSettings(), handle, store)(message)
    assert isinstance(outcome if isinstance(outcome, Done) else await outcome, Done)  # type: ignore[misc]
