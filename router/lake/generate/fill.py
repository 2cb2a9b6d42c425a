"""Publish a load into the stream, in order, as fast as the server stores it.

JetStream silently drops messages when 10 000 wait for a stream. So the last message of each chunk
asks for its PubAck, at most IN_FLIGHT chunks are unacknowledged, and the sequence in each PubAck
must be the one that a complete load would have.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable

import orjson
from msgspec import Struct

from router.contracts.usage import USAGE_SUBJECT
from router.core.errors import BrokerUnavailable, Misconfigured, RouterError
from router.delivery.wire.api import JetStream
from router.delivery.wire.frames import Headers
from router.lake.generate.load import Load, LoadMessage

FillProgress = Callable[[int, int], None]

IN_FLIGHT = 5  # chunks
PUBLISH_SILENCE_S = 20.0


class FillFailed(RouterError):
    """The stream does not hold exactly the load, so the load's figures do not apply to it."""

    code = "not_filled"


class FillResult(Struct, frozen=True):
    """Where the load is in the stream."""

    stream: str
    first_seq: int
    last_seq: int


async def fill(
    jetstream: JetStream,
    load: Load,
    stream: str,
    on_progress: FillProgress = lambda _done, _total: None,
) -> FillResult:
    """Publish a load; calls `on_progress` with (messages stored, messages in all). Raises
    FillFailed, BrokerUnavailable, Misconfigured.
    """
    info = await jetstream.stream(stream)
    if info is None:
        raise Misconfigured(
            "stream",
            f"there is no stream {stream}: start a router once, or `router topology apply`",
        )
    window = FillWindow(
        jetstream, info["state"]["last_seq"], lambda done: on_progress(done, load.plan.events)
    )
    await window.open()
    try:
        for chunk in load.make_chunks():
            await window.put(chunk)
        await window.end()
    finally:
        await window.close()
    return FillResult(stream, info["state"]["last_seq"] + 1, window.published)


class FillWindow:
    """Publishes chunks, and waits while too many are unacknowledged."""

    def __init__(
        self, jetstream: JetStream, last_seq: int, on_progress: Callable[[int], None]
    ) -> None:
        self._connection = jetstream.connection
        self._inbox = self._connection.new_inbox()
        self._base = last_seq
        self.published = self._stored = last_seq  # sequences
        self._on_progress = on_progress
        # the last sequence of each unacknowledged chunk, oldest first
        self._waiting: list[int] = []
        self._acked = asyncio.Event()
        self._broken: RouterError | None = None
        self._sid = 0

    async def open(self) -> None:
        self._sid = await self._connection.subscribe_direct(self._inbox, self._on_ack)

    async def close(self) -> None:
        await self._connection.unsubscribe(self._sid)

    async def put(self, chunk: list[LoadMessage]) -> None:
        await self._wait_until(IN_FLIGHT - 1)
        publish = self._connection.publish_nowait
        for message_id, body in chunk[:-1]:
            publish(USAGE_SUBJECT, body, "", _make_head(message_id))
        message_id, body = chunk[-1]
        publish(USAGE_SUBJECT, body, self._inbox, _make_head(message_id))
        self.published += len(chunk)
        self._waiting.append(self.published)
        await asyncio.sleep(0)  # lets the flusher and the reader run

    async def end(self) -> None:
        await self._wait_until(0)

    async def _wait_until(self, most: int) -> None:
        """Wait until at most `most` chunks are unacknowledged."""
        while len(self._waiting) > most and self._broken is None:
            self._acked.clear()
            try:
                async with asyncio.timeout(PUBLISH_SILENCE_S):
                    await self._acked.wait()
            except TimeoutError as exc:
                raise BrokerUnavailable(
                    f"no PubAck for {PUBLISH_SILENCE_S:g} s; {self._stored - self._base} "
                    "messages are stored"
                ) from exc
        if self._broken is not None:
            raise self._broken

    def _on_ack(self, _subject: str, _reply: str, data: bytes, _headers: Headers | None) -> None:
        expected = self._waiting.pop(0) if self._waiting else 0
        self._broken = self._broken or _find_fault(data, expected)
        self._stored = expected
        self._on_progress(expected - self._base)
        self._acked.set()


def _find_fault(data: bytes, expected: int) -> RouterError | None:
    ack = orjson.loads(data) if data else {"error": {"description": "no stream takes this subject"}}
    if "error" in ack:
        return FillFailed(f"the stream takes no more: {ack['error'].get('description')}")
    if ack.get("duplicate"):
        return FillFailed("these messages are in the stream already: take another --seed")
    if ack["seq"] != expected:
        return FillFailed(
            f"sequence {ack['seq']} instead of {expected}: another program writes to the "
            "stream, or the server dropped messages"
        )
    return None


def _make_head(message_id: str) -> bytes:
    return b"NATS/1.0\r\nNats-Msg-Id: %b\r\n\r\n" % message_id.encode()
