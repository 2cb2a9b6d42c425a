"""The first step of a micro-batch, in the task that reads the messages: one range of the stream.
And the Spark source whose rows are what a range becomes.

    a range ──> bronze        every message, by the day of its event
           ├──> quarantine    messages that are no usage event, and the reason
           └──> rows for Spark to shuffle: typed events by identity, as Arrow bytes; and the names of the files

Files count only when a commit names them, so Spark may stage a range as often as it likes.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from itertools import islice
from uuid import uuid4

import msgspec
import pyarrow as pa
import pyarrow.compute as pc
from msgspec import Struct
from pyspark.sql import SparkSession
from pyspark.sql.datasource import InputPartition
from pyspark.sql.streaming.datasource import ReadLimit
from pyspark.sql.types import BinaryType, IntegerType, StringType, StructField, StructType

from router.lake.jobs.daily_writer import DailyWriter
from router.lake.source import JetStreamDataSource
from router.lake.source.offset import DataLoss, Json
from router.lake.source.options import SourceOptions, read_options
from router.lake.source.reader import JetStreamStreamReader
from router.lake.source.rows import MESSAGE_SCHEMA
from router.lake.tables.arrow import EVENT
from router.lake.tables.body import BOUNDS, EventBounds
from router.lake.tables.event import find_identity_buckets, parse_messages
from router.lake.tables.late import floor_to_days
from router.lake.warehouse.commit import DataFile
from router.lake.warehouse.storage import Storage

BATCHES_PER_ROW_GROUP = 4  # record batches in a row group of bronze: what a task holds in memory
FILES, EVENTS = "files", "events"  # what the body of a staged row is
BYTES_PER_ROW = 8 * 1024 * 1024

StagedRow = tuple[int, str, bytes]  # the task of the second step, FILES or EVENTS, the body


class StagedRange(Struct, frozen=True, kw_only=True):
    """The files of one range."""

    bronze: list[DataFile]
    quarantine: list[DataFile]

    @property
    def messages(self) -> int:
        return sum(file.rows for file in self.bronze)

    @property
    def first(self) -> int | None:
        """The first sequence; None if there was no message."""
        return min((file.min_seq or 0 for file in self.bronze), default=None)

    @property
    def last(self) -> int | None:
        return max((file.max_seq or 0 for file in self.bronze), default=None)


class EventParcel:
    """Events that wait until they fill a row."""

    def __init__(self, task: int) -> None:
        self._task = task
        self._events: list[pa.RecordBatch] = []
        self._bytes = 0

    def add(self, events: pa.RecordBatch) -> Iterator[StagedRow]:
        self._events.append(events)
        self._bytes += events.nbytes
        if self._bytes >= BYTES_PER_ROW:
            yield from self.close()

    def close(self) -> Iterator[StagedRow]:
        if self._events:
            yield self._task, EVENTS, encode_events(self._events)
        self._events, self._bytes = [], 0


def stage_range(
    messages: Iterable[pa.RecordBatch], storage: Storage, tasks: int, bounds: EventBounds = BOUNDS
) -> Iterator[StagedRow]:
    """Write one range of messages into bronze and quarantine, and yield its events for the `tasks`
    of the second step, and its files.
    """
    run = f"ingest-{uuid4().hex[:12]}"
    bronze, quarantine = (
        DailyWriter(storage, "bronze", run),
        DailyWriter(storage, "quarantine", run),
    )
    parcels = [EventParcel(task) for task in range(tasks)]
    for group in _group_batches(messages):
        parsed = [parse_messages(batch, bounds) for batch in group]
        whole = pa.Table.from_batches(group)
        bronze.add(
            whole, _find_days(whole, pa.Table.from_batches([events for events, _ in parsed]))
        )
        for events, refused in parsed:
            quarantine.add(pa.Table.from_batches([refused]))
            yield from _deal_out(events, parcels)
    for parcel in parcels:
        yield from parcel.close()
    yield (
        0,
        FILES,
        msgspec.json.encode(StagedRange(bronze=bronze.close(), quarantine=quarantine.close())),
    )


def encode_events(events: list[pa.RecordBatch]) -> bytes:
    sink = pa.BufferOutputStream()
    with pa.ipc.new_stream(
        sink, EVENT, options=pa.ipc.IpcWriteOptions(compression="lz4")
    ) as writer:
        for batch in events:
            writer.write(batch)
    return bytes(sink.getvalue())


def decode_events(body: bytes) -> pa.Table:
    return pa.ipc.open_stream(body).read_all()


def decode_files(body: bytes) -> StagedRange:
    return msgspec.json.decode(body, type=StagedRange)


def _deal_out(events: pa.RecordBatch, parcels: list[EventParcel]) -> Iterator[StagedRow]:
    if len(parcels) == 1:
        yield from parcels[0].add(events)
        return
    tasks = pc.subtract(
        (buckets := find_identity_buckets(events)),
        pc.multiply(pc.divide(buckets, len(parcels)), len(parcels)),
    )
    for number, parcel in enumerate(parcels):
        if len(part := events.filter(pc.equal(tasks, number))):
            yield from parcel.add(part)


def _find_days(messages: pa.Table, events: pa.Table) -> pa.ChunkedArray:
    """Return the day of each message's event; of its storing, if it is none."""
    places = pc.index_in(messages["seq"], events["seq"].combine_chunks())
    return pc.coalesce(
        floor_to_days(events["timestamp"]).take(places), floor_to_days(messages["time"])
    )


def _group_batches(messages: Iterable[pa.RecordBatch]) -> Iterator[list[pa.RecordBatch]]:
    batches = iter(messages)
    while group := list(islice(batches, BATCHES_PER_ROW_GROUP)):
        yield group


# -- `jetstream_staging`: the `jetstream` source with the same offsets, limits and ranges, but its
# rows are what a range becomes (`staging`).
#
# So no single message crosses into the JVM, which would decode and encode it for nothing. When
# Spark wrote bronze and read it back, a message cost 36 µs of processor time until its event was
# typed.


FORMAT = "jetstream_staging"
STAGED_ROW = StructType(
    [
        StructField("task", IntegerType(), nullable=False),
        StructField("kind", StringType(), nullable=False),
        StructField("body", BinaryType(), nullable=False),
    ]
)


class StagingOptions(msgspec.Struct, frozen=True, kw_only=True):
    """`tasks`: of the second step. `first_end`: where the first batch ends, because tables end
    there that are ahead of silver.
    """

    warehouse: str
    tasks: int
    bounds: EventBounds = BOUNDS
    first_end: int | None = None


class StagingSource(JetStreamDataSource):
    """Options: the source's own, and `staging` (StagingOptions as JSON).

    Messages before `startingOffsets` are not staged, whatever a checkpoint says.
    """

    @classmethod
    def name(cls) -> str:
        return FORMAT

    def schema(self) -> StructType:
        return STAGED_ROW

    def streamReader(self, schema: StructType) -> StagingReader:  # noqa: N802 - Spark's name
        options = dict(self.options)
        staging = msgspec.json.decode(options.pop("staging"), type=StagingOptions)
        return StagingReader(staging, read_options(options))


class StagingReader(JetStreamStreamReader):
    """Reads and stages its ranges in the tasks that Spark schedules."""

    def __init__(self, staging: StagingOptions, options: SourceOptions) -> None:
        super().__init__(options, MESSAGE_SCHEMA)
        self._staging = staging

    def latestOffset(self, start: Json, limit: ReadLimit) -> Json:  # noqa: N802 - Spark's name
        end = super().latestOffset(start, limit)
        _refuse_another(start, end)
        first_end = self._staging.first_end
        return (
            {**end, "next": first_end + 1}
            if first_end is not None and start["next"] <= first_end
            else end
        )

    def partitions(self, start: Json, end: Json) -> Sequence[InputPartition]:
        _refuse_another(start, end)
        following = max(start["next"], self._options.start or 0)
        if following >= end["next"]:
            return []  # the tables are ahead of the checkpoint
        return super().partitions({**start, "next": following}, end)

    # its rows differ from the source's
    def read(self, partition: InputPartition) -> Iterator[StagedRow]:
        return stage_range(
            super().read(partition),
            Storage(self._staging.warehouse),
            self._staging.tasks,
            self._staging.bounds,
        )


def _refuse_another(start: Json, end: Json) -> None:
    """Raises DataLoss, also where losses are accepted: a warehouse is of one stream, and another
    one counts from 1 again.
    """
    if start["created"] != end["created"]:
        raise DataLoss(
            f"{end['stream']} was made anew at {end['created']}: its messages need a "
            "warehouse of their own"
        )


def register(spark: SparkSession) -> None:
    spark.dataSource.register(StagingSource)
