"""The first step of a micro-batch, in the task that reads the messages: one range of the stream into files.

    a range ──> bronze/        every message
           ├──> quarantine/    messages that are no usage event, and the reason
           └──> staging file   typed events, for the second step (`derive`)

Staged files count only when a commit names them, so Spark may stage a range as often as it likes.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from itertools import islice
from uuid import uuid4

import pyarrow as pa
from msgspec import Struct

from router.lake.jobs.daily_writer import DailyWriter
from router.lake.jobs.staging_file import StagingFile
from router.lake.tables.body import BOUNDS, EventBounds
from router.lake.tables.event import parse_messages
from router.lake.warehouse import DataFile, Warehouse

BATCHES_PER_ROW_GROUP = 4  # record batches in a row group of bronze: what a task holds in memory


class StagedRange(Struct, frozen=True, kw_only=True):
    """The files of one range. `staging_path` is that of its typed events, relative to the warehouse."""

    bronze: list[DataFile]
    quarantine: list[DataFile]
    staging_path: str
    events: int

    @property
    def messages(self) -> int:
        return sum(file.rows for file in self.bronze)

    @property
    def first(self) -> int:
        """The first sequence; 0 if there was no message."""
        return min((file.min_seq or 0 for file in self.bronze), default=0)

    @property
    def last(self) -> int:
        """The last sequence; 0 if there was no message."""
        return max((file.max_seq or 0 for file in self.bronze), default=0)


def stage_range(messages: Iterable[pa.RecordBatch], warehouse: Warehouse, bounds: EventBounds = BOUNDS) -> StagedRange:
    """Write one range of messages into bronze, quarantine and a staging file."""
    directory = f"ingest-{uuid4().hex[:12]}"
    bronze, quarantine = DailyWriter(warehouse, "bronze", directory), DailyWriter(warehouse, "quarantine", directory)
    with StagingFile(warehouse, directory) as staging:
        for group in _group_batches(messages):
            bronze.add(pa.Table.from_batches(group))
            for events, refused in (parse_messages(batch, bounds) for batch in group):
                staging.write(events)
                quarantine.add(pa.Table.from_batches([refused]))
    return StagedRange(bronze=bronze.close(), quarantine=quarantine.close(), staging_path=staging.path, events=staging.events)


def _group_batches(messages: Iterable[pa.RecordBatch]) -> Iterator[list[pa.RecordBatch]]:
    batches = iter(messages)
    while group := list(islice(batches, BATCHES_PER_ROW_GROUP)):
        yield group
