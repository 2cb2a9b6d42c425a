"""Read one range of a stream into Arrow record batches, whatever fails meanwhile: by one ephemeral
consumer after the other, each until it can no longer be trusted.

    a consumer at the first sequence of the range ──> rows; on silence, a lost connection, a deleted consumer
    ──> another consumer at the sequence after the last row

Sequences only rise, so each message is a row once. A deleted message has no row; before the fetch
passes over a gap, it asks whether the stream lost those sequences (`offset.refuse_loss`). Nothing
is read before Spark wants it: the loop runs only while Spark waits for the next record batch.
"""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Iterator
from typing import Any

import orjson
import pyarrow as pa

from router.core.errors import BrokerRefused, BrokerUnavailable
from router.delivery.wire.api import JetStream
from router.lake.source.broker import Broker, fetch_facts
from router.lake.source.offset import Interrupted, SequenceRange, StreamState, refuse_loss
from router.lake.source.options import SourceOptions
from router.lake.source.rows import (
    DeliveryBuffer,
    DeliveryPositions,
    make_record_batch,
    parse_position,
    parse_positions,
)

# -- An ephemeral pull consumer without acks: it reads until its range is delivered or it can no
# longer be trusted.
#
#     pull ──> deliveries into plain lists ──> `take_batch`: a batch of them, without a gap
#
# It ends, and the caller continues with another one, when the server sends anything that is no
# message, when the server is silent, and when a delivery is missing (the connection was cut for a
# moment). A delivery costs a counter and four appends; the reply subjects of a whole batch are
# parsed together.
#
# Measured side by side on two cores, messages only counted: 130–170 thousand/s so, 43–56 thousand/s
# by batched direct gets. With Arrow: 217 thousand/s in one process (320 without headers), 115
# thousand/s through Spark, `local[2]`, the broker on the same cores.


ROWS_A_BATCH = 16_384
BYTES_A_BATCH = 32 * 1024 * 1024
# requested at once: what the server may push while the caller does not read,
MESSAGES_IN_FLIGHT = 16_384
BYTES_IN_FLIGHT = 16 * 1024 * 1024  # well below the 64 MiB at which the server closes a connection
READ_SILENCE_S = 1.0
PULL_S = 45.0  # the server answers a request that waits longer with 408, which ends this consumer
# the server deletes a consumer without pulls after this time, if this process dies before it does
IDLE_S = 60.0
_NS = 1_000_000_000


class EphemeralConsumer:
    """`open`, `take_batch` until `is_over`, `close`."""

    def __init__(
        self,
        jetstream: JetStream,
        stream: str,
        *,
        average_bytes: float,
        silence_s: float = READ_SILENCE_S,
    ) -> None:
        self._jetstream = jetstream
        self._connection = jetstream.connection
        self._stream = stream
        self.average_bytes = average_bytes  # of a message, in the last deliveries
        self._silence_s = silence_s  # the consumer is given up after this long without a delivery
        self._is_delivered = True  # everything requested was delivered: nothing yet
        self._is_cut = False
        self._is_full = False
        self._name = ""
        self._inbox = self._connection.new_inbox()
        self._sid = 0
        self._last = 0  # the last sequence of the range
        self._remaining = 0  # messages to come, at most
        self._outstanding = 0  # those of them that were requested
        self._delivered = 0  # messages returned so far
        self._has_news = asyncio.Event()
        self._begin_batch()

    def _begin_batch(self) -> None:
        self._buffer = DeliveryBuffer()
        self._add_reply, self._add_subject = (
            self._buffer.replies.append,
            self._buffer.subjects.append,
        )
        self._add_head, self._add_data = self._buffer.heads.append, self._buffer.data.append
        self._counted = 0
        self._room = BYTES_A_BATCH
        self._is_full = False
        self._until_look = 1

    @property
    def is_over(self) -> bool:
        """Everything was delivered and taken."""
        return self._is_delivered and not len(self._buffer)

    async def open(self, start: int, end: int, subject: str | None) -> None:
        """Deliver the messages from `start` up to and without `end`."""
        self._last = end - 1
        self._sid = await self._connection.subscribe_raw(self._inbox, self._on_delivery)
        config = _make_config(start, subject)
        made = await self._jetstream.ask(
            f"CONSUMER.CREATE.{self._stream}", {"stream_name": self._stream, "config": config}
        )
        self._name = made["name"]
        self._remaining = min(made["num_pending"], end - start)
        self._is_delivered = not self._remaining

    async def take_batch(self) -> tuple[DeliveryBuffer, DeliveryPositions]:
        """Return the next messages in order; some may be beyond the range. Raises Interrupted, and
        then this consumer has ended.
        """
        self._catch_up()
        self._pull()
        while not (self._is_full or self._is_cut or self._is_delivered):
            self._has_news.clear()
            await self._wait_for_delivery()
        self._catch_up()
        buffer = self._buffer
        self._begin_batch()
        if not len(buffer):
            raise Interrupted(f"{self._stream}: the consumer says no more")
        return buffer, self._check_gaps(buffer)

    async def close(self) -> None:
        """Delete the consumer on the server, if the server can be reached."""
        await self._connection.unsubscribe(self._sid, at_once=True)
        if self._name and self._connection.is_connected:
            with contextlib.suppress(BrokerRefused, BrokerUnavailable):
                await self._jetstream.ask(f"CONSUMER.DELETE.{self._stream}.{self._name}")

    async def _wait_for_delivery(self) -> None:
        before = len(self._buffer)
        try:
            async with asyncio.timeout(self._silence_s):
                await self._has_news.wait()
        except TimeoutError:
            self._is_cut = len(self._buffer) == before

    def _check_gaps(self, buffer: DeliveryBuffer) -> DeliveryPositions:
        positions = parse_positions(buffer.replies)
        whole = positions.count_contiguous(self._delivered + 1)
        self._delivered += whole
        if whole == len(buffer):
            return positions
        self._is_cut, self._is_delivered = True, False
        if not whole:
            raise Interrupted(f"{self._stream}: deliveries were lost on the way")
        return positions.take_first(whole)

    # -- every few thousand messages ---------------------------------------------------------------

    def _pull(self) -> None:
        """Request more when half of the window has come, and set when to look again."""
        if self._is_cut or self._is_delivered:
            return
        most = int(max(2, min(MESSAGES_IN_FLIGHT, BYTES_IN_FLIGHT / max(1.0, self.average_bytes))))
        wanted = min(most, self._remaining)
        if self._outstanding <= wanted // 2:
            request = {"batch": wanted - self._outstanding, "expires": int(PULL_S * _NS)}
            self._outstanding = wanted
            self._connection.publish_nowait(
                f"{self._jetstream.prefix}.CONSUMER.MSG.NEXT.{self._stream}.{self._name}",
                orjson.dumps(request),
                self._inbox,
            )
        # `_remaining` is too high if messages were deleted since, so the last ones are checked more
        # and more often.
        ahead = (
            self._outstanding - wanted // 2
            if self._remaining > self._outstanding
            else self._remaining // 2
        )
        self._until_look = max(1, min(ahead, ROWS_A_BATCH - len(self._buffer)))

    def _count_new(self) -> None:
        place = parse_position(self._buffer.replies[-1])
        new = len(self._buffer) - self._counted
        self.average_bytes = self._buffer.count_bytes(self._counted) / new
        self._counted = len(self._buffer)
        self._outstanding -= new
        self._remaining = min(place.pending, self._last - place.sequence)
        self._is_delivered = self._remaining <= 0
        self._is_full = self._is_full or len(self._buffer) >= ROWS_A_BATCH or self._room <= 0
        if self._is_delivered or self._is_full:
            # deliveries that are still in the buffer are kept
            self._until_look, self._room = ROWS_A_BATCH, BYTES_A_BATCH
            self._has_news.set()
        else:
            self._pull()

    def _on_status(self) -> None:
        """Handle a status message: the request has ended, or the consumer is gone."""
        self._catch_up()
        self._is_cut = not self._is_delivered
        self._has_news.set()

    def _catch_up(self) -> None:
        if len(self._buffer) > self._counted:
            self._count_new()

    # -- once a message ----------------------------------------------------------------------------

    def _on_delivery(self, subject: bytes, reply: bytes, data: bytes, head: bytes | None) -> None:
        if not reply:
            self._on_status()
            return
        self._add_reply(reply)
        self._add_subject(subject)
        self._add_head(head)
        self._add_data(data)
        self._until_look -= 1
        self._room -= len(data)
        if not self._until_look or self._room <= 0:
            self._count_new()


def _make_config(start: int, subject: str | None) -> dict[str, Any]:
    config: dict[str, Any] = {
        "deliver_policy": "by_start_sequence",
        "opt_start_seq": start,
        "ack_policy": "none",
        "max_deliver": 1,
        "mem_storage": True,
        "num_replicas": 1,
        "inactive_threshold": int(IDLE_S * _NS),
    }
    return config if subject is None else {**config, "filter_subject": subject}


# -- Read one range of a stream into Arrow record batches, whatever fails meanwhile.


CONSUMER_RETRY_S = 0.1  # before another consumer is tried


def read_record_batches(
    options: SourceOptions, wanted: SequenceRange, schema: pa.Schema
) -> Iterator[pa.RecordBatch]:
    """Yield the messages of a range, in order. Raises DataLoss, and BrokerUnavailable after
    `timeoutMs` without a message.
    """
    if not len(wanted):
        return
    with Broker(options) as broker:
        fetch = RangeFetch(broker.jetstream, options, wanted)
        try:
            while (columns := broker.run(fetch.read_next())) is not None:
                yield make_record_batch(
                    options.stream, *columns, schema, has_headers=options.has_headers
                )
        finally:
            broker.run(fetch.close())


class RangeFetch:
    def __init__(self, jetstream: JetStream, options: SourceOptions, wanted: SequenceRange) -> None:
        self._jetstream = jetstream
        self._options = options
        self._wanted = wanted
        self._next = wanted.start
        self._consumer: EphemeralConsumer | None = None
        self._average_bytes = 1.0  # of a message
        self._silence_s = READ_SILENCE_S

    async def read_next(self) -> tuple[DeliveryBuffer, DeliveryPositions] | None:
        """Return the next rows; None at the end of the range."""
        until = asyncio.get_running_loop().time() + self._options.timeout_s
        while self._next < self._wanted.end:
            try:
                return await self._read()
            except (BrokerUnavailable, BrokerRefused, Interrupted) as exc:
                if asyncio.get_running_loop().time() > until:
                    raise BrokerUnavailable(
                        f"{self._options.stream}: sequence {self._next} cannot be read: {exc}"
                    ) from exc
                await self.close()
                await asyncio.sleep(CONSUMER_RETRY_S)
                self._silence_s *= 2  # a slow server gets longer
        return None

    async def close(self) -> None:
        if self._consumer is not None:
            self._average_bytes = self._consumer.average_bytes
            await self._consumer.close()
            self._consumer = None

    async def _read(self) -> tuple[DeliveryBuffer, DeliveryPositions] | None:
        self._consumer = self._consumer or await self._open_consumer()
        if self._consumer.is_over:
            await self._finish_range()
            return None
        buffer, positions = await self._consumer.take_batch()
        positions = positions.take_below(self._wanted.end)
        if not len(positions.sequences):
            await self._finish_range()
            return None
        if (gap := positions.find_gap(self._next - 1)) is not None:
            await self._refuse_loss(gap, gap)
        self._next = positions.sequences[-1].as_py() + 1
        self._silence_s = READ_SILENCE_S
        return buffer, positions

    async def _open_consumer(self) -> EphemeralConsumer:
        facts = await self._refuse_loss(self._next, self._next)
        consumer = EphemeralConsumer(
            self._jetstream,
            self._options.stream,
            average_bytes=max(self._average_bytes, facts.average_bytes),
            silence_s=self._silence_s,
        )
        # otherwise the stream was recreated, and that loss is allowed
        if facts.created == self._wanted.created:
            await consumer.open(self._next, self._wanted.end, self._options.subject)
        return consumer

    async def _finish_range(self) -> None:
        await self._refuse_loss(self._next, self._wanted.end)
        self._next = self._wanted.end

    async def _refuse_loss(self, start: int, end: int) -> StreamState:
        facts = await fetch_facts(self._jetstream, self._options.stream)
        refuse_loss(
            SequenceRange(start, end, self._wanted.created),
            facts,
            fails_on_loss=self._options.fails_on_loss,
        )
        return facts
