"""The server's advisories about messages that reached a durable's `max_deliver`
(docs/explanation/durability.md#safety-net).

    a message was delivered as often as allowed ──> $JS.EVENT.ADVISORY.CONSUMER.MAX_DELIVERIES.{stream}.{durable}
                                                    └─ kept in ROUTER_ADVISORIES: a core NATS message would be lost while no process listens

Only durables of inboxes (20 deliveries) and agents (5) have such a limit; `mailbox` and `agents`
handle the messages.

An advisory names its message by the sequence alone, and sequences begin again in a re-created
stream. So a message that was stored after the advisory is another one, which the server still
delivers.
"""

from __future__ import annotations

import orjson

from router.core.message import Message
from router.delivery.wire.api import JetStream, StoredMessage, nanos
from router.delivery.wire.topology import StreamSpec

ADVISORY_STREAM = "ROUTER_ADVISORIES"
ADVISORY_PREFIX = "$JS.EVENT.ADVISORY.CONSUMER.MAX_DELIVERIES"
ALL_ADVISORIES = f"{ADVISORY_PREFIX}.>"


def advisory_subject(stream: str, durable: str) -> str:
    """The subject of the advisories about one durable."""
    return f"{ADVISORY_PREFIX}.{stream}.{durable}"


def advisories_stream(name: str, replicas: int) -> StreamSpec:
    """The stream that keeps the advisories about every durable of the account."""
    return StreamSpec(
        name=name,
        subjects=(ALL_ADVISORIES,),
        max_age=7 * 86_400.0,
        max_bytes=64 * 1024 * 1024,
        replicas=replicas,
    )


def stranded_sequence(data: bytes) -> int | None:
    """The sequence of an advisory's message; None if it is not readable."""
    try:
        sequence = orjson.loads(data).get("stream_seq")
    except (orjson.JSONDecodeError, AttributeError):
        return None
    return sequence if isinstance(sequence, int) and sequence > 0 else None


async def read_stranded(
    jetstream: JetStream, stream: str, advisory: Message
) -> StoredMessage | None:
    """An advisory's message; None when it is gone, or when another message has its sequence now."""
    sequence = stranded_sequence(advisory.data)
    stored = await jetstream.message(stream, sequence) if sequence is not None else None
    return stored if stored is not None and nanos(stored.time) <= advisory.stored_ns else None
