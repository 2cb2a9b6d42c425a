"""The first step of a micro-batch, in the task that reads the messages: one range of the stream.

    a range ──> bronze        every message, by the day of its event
           ├──> quarantine    messages that are no usage event, and the reason
           └──> rows for Spark to shuffle: typed events by identity, as Arrow bytes; and the names of the files

Files count only when a commit names them, so Spark may stage a range as often as it likes.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from itertools import islice
from uuid import uuid4

import msgspec
import pyarrow as pa
import pyarrow.compute as pc
from msgspec import Struct

from router.lake.jobs.daily_writer import DailyWriter
from router.lake.tables.arrow import EVENT
from router.lake.tables.body import BOUNDS, EventBounds
from router.lake.tables.event import parse_messages
from router.lake.tables.identity_buckets import find_identity_buckets
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
