"""What the server says when it stops delivering a message: a durable with a limit of its own has reached it.

Rule: docs/durability.md#safety-net.

    a message was delivered as often as allowed ──> $JS.EVENT.ADVISORY.CONSUMER.MAX_DELIVERIES.{stream}.{durable}
                                                    └─ kept in ROUTER_ADVISORIES: a core NATS message would be lost while no process listens

Only durables of SDS (20 deliveries) and MeshForge (5) have such a limit. What becomes of the message is its room's to say.

An advisory names its message by the sequence alone, and sequences begin again in a stream that is made anew: a message that
was stored after the advisory is another one, which the server still delivers.
"""

from __future__ import annotations

import orjson

from router.core.message import Message
from router.delivery.api import JetStream, StoredMessage, nanos
from router.delivery.topology import StreamSpec

ADVISORY_STREAM = "ROUTER_ADVISORIES"
ADVISORY_PREFIX = "$JS.EVENT.ADVISORY.CONSUMER.MAX_DELIVERIES"


def advisory_subject(stream: str, durable: str) -> str:
    """Where the server speaks of one durable."""
    return f"{ADVISORY_PREFIX}.{stream}.{durable}"


def advisories_stream(name: str = ADVISORY_STREAM) -> StreamSpec:
    """The stream that keeps them, for every durable of the account: all declarations bind the same subject."""
    return StreamSpec(name=name, subjects=(f"{ADVISORY_PREFIX}.>",), max_age=7 * 86_400.0, max_bytes=64 * 1024 * 1024)


def stranded_sequence(data: bytes) -> int | None:
    """The sequence of the message that an advisory speaks of; None when it does not say."""
    try:
        sequence = orjson.loads(data).get("stream_seq")
    except (orjson.JSONDecodeError, AttributeError):
        return None
    return sequence if isinstance(sequence, int) and sequence > 0 else None


async def read_stranded(jetstream: JetStream, stream: str, advisory: Message) -> StoredMessage | None:
    """The message that an advisory speaks of; None when it is gone, or when another message has its sequence now."""
    sequence = stranded_sequence(advisory.data)
    stored = await jetstream.message(stream, sequence) if sequence is not None else None
    return stored if stored is not None and nanos(stored.time) <= advisory.stored_ns else None
