"""Read a stream forwards in batches, by an ephemeral consumer without acks: 50 000 messages a
second and more.

    async with open_reader(jetstream, stream, start) as reader:       # reader.total: how many messages there are
        while found := await reader.read(500): …                      # also those that come meanwhile
        async for found in reader.read_all(500): …                    # those that were there, the next page on its way meanwhile

Sequence and time come from the ack subject, not from headers, which senders write. The server
removes the consumer five minutes after the last read.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from datetime import UTC, datetime
from secrets import randbelow, token_hex
from typing import Generic, TypeVar

import orjson

from router.core.errors import BrokerRefused, BrokerUnavailable
from router.core.message import parse_ack_subject
from router.delivery.consume.pull import SPREAD_BYTES
from router.delivery.wire.api import STREAM_NOT_FOUND, JetStream, Json, StoredMessage
from router.delivery.wire.frames import Headers, parse_head

READ_TIMEOUT_S = 5.0
READ_BATCH = 1_000
FOLLOW_WAIT_S = 1.0
INACTIVE_THRESHOLD_NS = 300 * 1_000_000_000
# of a fixed name, which the consumer of a killed process would block
NAMED_INACTIVE_THRESHOLD_NS = 30 * 1_000_000_000
# far below the server's `max_pending`, at which it closes the connection
MAX_BATCH_BYTES = 8 * 1024 * 1024
ENDED = ("", "404", "408")  # all came; there are no more; no more came in time


T = TypeVar("T")
RawMessage = tuple[bytes, bytes, bytes, bytes | None]  # subject, ack subject, data, header block


class BatchReader(Generic[T]):
    """`headers_only`: without payloads; `subject`: only messages on it; `name`: a fixed one, so
    that one process reads at a time.

    `since`: those that were stored from then on, whatever `start` is.
    """

    def __init__(
        self,
        jetstream: JetStream,
        stream: str,
        start: int = 1,
        *,
        subject: str | None = None,
        headers_only: bool = False,
        name: str | None = None,
        since: datetime | None = None,
    ) -> None:
        self._jetstream = jetstream
        self._connection = connection = jetstream.connection
        self._stream = stream
        self._name = name or f"read-{token_hex(8)}"
        self._config: Json = {
            "name": self._name,
            "ack_policy": "none",
            "deliver_policy": "by_start_sequence",
            "opt_start_seq": max(start, 1),
            "headers_only": headers_only,
            "mem_storage": True,
            "inactive_threshold": INACTIVE_THRESHOLD_NS
            if name is None
            else NAMED_INACTIVE_THRESHOLD_NS,
        }
        if since is not None:
            del self._config["opt_start_seq"]
            self._config |= {
                "deliver_policy": "by_start_time",
                "opt_start_time": since.astimezone(UTC).isoformat().replace("+00:00", "Z"),
            }
        if subject is not None:
            self._config["filter_subject"] = subject
        self._inbox = connection.new_inbox() + "."
        self._asked = 0  # requests so far; it tells frames of an earlier request apart
        self._missing = 0
        self._found: list[T] = []
        self._ended = asyncio.Event()
        self._status = ""
        self._sid = 0
        # the server has not made the consumer: one of this name may be another process's
        self._is_missing = True
        self.total = 0  # messages in the stream when it was opened

    async def open(self) -> None:
        """Raises BrokerRefused when the stream cannot be read."""
        self._sid = await self._subscribe(self._inbox + "*")
        answer = await self._jetstream.ask(
            f"CONSUMER.CREATE.{self._stream}.{self._name}",
            {"stream_name": self._stream, "config": self._config, "action": "create"},
        )
        self._is_missing = False
        self.total = int(answer["num_pending"])

    async def _subscribe(self, subject: str) -> int:
        """Call `_add` for each message and `_end` for each other frame."""
        raise NotImplementedError

    async def read(self, most: int, wait_s: float = 0.0) -> list[T]:
        """At most `most` messages, in order; empty when there are no more, or none came within
        `wait_s`.
        """
        return await self._take(self._ask(most, wait_s), wait_s)

    async def read_all(self, page: int, most: int | None = None) -> AsyncIterator[list[T]]:
        """Those that were there when it was opened, at most `most`, a page at a time.

        The server sends the next page while the caller works on this one: a hundred thousand dead
        letters were grouped in 0.72 s instead of 1.02.
        """
        left = self.total if most is None else min(most, self.total)
        subject = self._ask(min(page, left)) if left > 0 else ""
        while left > 0 and (batch := await self._take(subject)):
            left -= len(batch)
            if left > 0:
                subject = self._ask(min(page, left))
            yield batch

    def _ask(self, most: int, wait_s: float = 0.0) -> str:
        """Ask for the next page; returns the subject of the question."""
        self._found, self._missing, self._status = [], most, ""
        self._ended.clear()
        self._asked += 1
        # The limit has a random part as in `pull`: if messages use it up to the last byte, the
        # server reports no end.
        wanted: Json = {
            "batch": most,
            "max_bytes": max(MAX_BATCH_BYTES, 2 * self._connection.max_payload)
            + randbelow(SPREAD_BYTES),
        }
        wanted |= {"expires": int(wait_s * 1e9)} if wait_s else {"no_wait": True}
        subject = f"{self._jetstream.prefix}.CONSUMER.MSG.NEXT.{self._stream}.{self._name}"
        self._connection.publish_nowait(
            subject, orjson.dumps(wanted), f"{self._inbox}{self._asked}"
        )
        return subject

    async def _take(self, subject: str, wait_s: float = 0.0) -> list[T]:
        """The page that was asked for."""
        try:
            async with asyncio.timeout(wait_s + READ_TIMEOUT_S):
                await self._ended.wait()
        except TimeoutError as exc:
            raise self._connection.denials.find(subject) or BrokerUnavailable(
                f"stream {self._stream} cannot be read: no answer"
            ) from exc
        # with messages, the status is that of the limit in bytes
        if self._status not in ENDED and not self._found:
            raise BrokerUnavailable(f"stream {self._stream} cannot be read: status {self._status}")
        return self._found

    async def close(self) -> None:
        await self._connection.unsubscribe(self._sid)
        if not self._is_missing:
            self._connection.publish_nowait(
                f"{self._jetstream.prefix}.CONSUMER.DELETE.{self._stream}.{self._name}"
            )

    def _add(self, item: T) -> None:
        self._found.append(item)
        self._missing -= 1
        if not self._missing:
            self._ended.set()

    def _end(self, subject: str, headers: Headers | None) -> None:
        if subject == f"{self._inbox}{self._asked}":
            self._status = (headers or {}).get("Status", "")
            self._ended.set()


class StreamReader(BatchReader[StoredMessage]):
    """Reads messages."""

    async def _subscribe(self, subject: str) -> int:
        return await self._connection.subscribe_direct(subject, self._on_message)

    def _on_message(
        self, subject: str, ack_subject: str, data: bytes, headers: Headers | None
    ) -> None:
        if subject.startswith(self._inbox):
            self._end(subject, headers)
            return
        place = parse_ack_subject(ack_subject)
        self._add(
            StoredMessage(
                subject, place.sequence, data, headers or {}, format_stored_time(place.stored_ns)
            )
        )


class RawReader(BatchReader[RawMessage]):
    """Reads messages undecoded, at a third of the cost, for a caller that looks at few of them
    closely.
    """

    async def _subscribe(self, subject: str) -> int:
        return await self._connection.subscribe_raw(subject, self._on_message)

    def _on_message(
        self, subject: bytes, ack_subject: bytes, data: bytes, head: bytes | None
    ) -> None:
        if ack_subject:
            self._add((subject, ack_subject, data, head))
        else:
            self._end(
                subject.decode("utf-8", "replace"), parse_head(head) if head is not None else None
            )


@asynccontextmanager
async def open_reader(
    jetstream: JetStream,
    stream: str,
    start: int = 1,
    *,
    subject: str | None = None,
    headers_only: bool = False,
    since: datetime | None = None,
) -> AsyncIterator[StreamReader]:
    """An open StreamReader, closed in the end."""
    reader = StreamReader(
        jetstream, stream, start, subject=subject, headers_only=headers_only, since=since
    )
    try:
        await reader.open()
        yield reader
    finally:
        await reader.close()


async def read_since(
    jetstream: JetStream, stream: str, since: datetime | None = None, *, follow: bool = False
) -> AsyncIterator[StoredMessage]:
    """The messages that were stored since then, oldest first; with `follow` also those to come,
    without an end. Raises BrokerUnavailable.

    A stream that is missing has none, and cannot be followed: BrokerRefused.
    """
    try:
        async with open_reader(jetstream, stream, since=since) as reader:
            while (
                batch := await reader.read(READ_BATCH, FOLLOW_WAIT_S if follow else 0.0)
            ) or follow:
                for message in batch:
                    yield message
    except BrokerRefused as exc:
        if follow or exc.err_code != STREAM_NOT_FOUND:
            raise


def format_stored_time(ns: int) -> str:
    """Nanoseconds since the epoch as the server's RFC 3339 text."""
    return f"{datetime.fromtimestamp(ns // 1_000_000_000, UTC):%Y-%m-%dT%H:%M:%S}.{ns % 1_000_000_000:09d}Z"
