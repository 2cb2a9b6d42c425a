"""A whole stream read by nats-py's own ordered consumer: the suite does not count with the code
that it is about.
"""

import asyncio

from msgspec import Struct
from nats.aio.client import Client
from nats.aio.msg import Msg

SILENCE_S = 20.0


class Standing(Struct, frozen=True):
    """One stored message."""

    subject: str
    sequence: int
    msg_id: str
    data: bytes
    stored_at: float  # by the server's wall clock


async def standing(client: Client, stream: str) -> list[Standing]:
    """What stands in a stream, oldest first. TimeoutError when it cannot be read to its end."""
    count = (await client.jsm().stream_info(stream)).state.messages
    found: list[Standing] = []
    if count == 0:
        return found
    is_whole = asyncio.Event()

    # half of what waiting for each message takes: a soak leaves ten million
    async def hear(message: Msg) -> None:
        found.append(_read(message))
        if len(found) >= count:
            is_whole.set()

    subscription = await client.jetstream().subscribe(
        "", stream=stream, ordered_consumer=True, cb=hear
    )
    try:
        while not is_whole.is_set():
            before = len(found)
            await asyncio.wait({asyncio.create_task(is_whole.wait())}, timeout=SILENCE_S)
            if len(found) == before:
                raise TimeoutError(
                    f"{stream}: {before} of {count} messages, and nothing for {SILENCE_S:g} s"
                )
    finally:
        await subscription.unsubscribe()
    return found


def _read(message: Msg) -> Standing:
    headers = message.headers or {}
    at = message.metadata.timestamp.timestamp()
    return Standing(
        message.subject,
        message.metadata.sequence.stream,
        headers.get("Nats-Msg-Id", ""),
        message.data,
        at,
    )
