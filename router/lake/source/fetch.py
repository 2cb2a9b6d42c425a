"""Read one range of a stream into Arrow record batches, whatever fails meanwhile.

    a consumer at the first sequence of the range ──> rows; on silence, a lost connection, a deleted consumer
    ──> another consumer at the sequence after the last row

Sequences only rise, so each message is a row once. A deleted message has no row; before the fetch
passes over a gap, it asks whether the stream lost those sequences (`offset.refuse_loss`). Nothing
is read before Spark wants it: the loop runs only while Spark waits for the next record batch.
"""

from __future__ import annotations

import asyncio
from collections.abc import Iterator

import pyarrow as pa

from router.core.errors import BrokerRefused, BrokerUnavailable
from router.delivery.wire.api import JetStream
from router.lake.source.broker import Broker, fetch_facts
from router.lake.source.consumer import READ_SILENCE_S, EphemeralConsumer
from router.lake.source.errors import Interrupted
from router.lake.source.offset import SequenceRange, StreamState, refuse_loss
from router.lake.source.options import SourceOptions
from router.lake.source.positions import DeliveryPositions
from router.lake.source.rows import DeliveryBuffer, make_record_batch

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
            while (found := broker.run(fetch.read_next())) is not None:
                yield make_record_batch(
                    options.stream, *found, schema, has_headers=options.has_headers
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
