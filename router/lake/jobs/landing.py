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

from router.lake.jobs.aside import Aside
from router.lake.jobs.days import Days
from router.lake.tables.body import BOUNDS, EventBounds
from router.lake.tables.event import typed
from router.lake.warehouse import File, Warehouse

GROUP = 4  # record batches in a row group of bronze: what a task holds in memory


class Landed(Struct, frozen=True, kw_only=True):
    """The files of one range. `aside` is the path of its typed events, relative to the warehouse."""

    bronze: list[File]
    quarantine: list[File]
    aside: str
    events: int

    @property
    def messages(self) -> int:
        return sum(file.rows for file in self.bronze)

    @property
    def last(self) -> int:
        """The last sequence; 0 if there was no message."""
        return max((file.max_seq or 0 for file in self.bronze), default=0)


def land(messages: Iterable[pa.RecordBatch], warehouse: Warehouse, bounds: EventBounds = BOUNDS) -> Landed:
    """Write one range of messages into bronze, quarantine and a staging file."""
    directory = f"ingest-{uuid4().hex[:12]}"
    bronze, quarantine = Days(warehouse, "bronze", directory), Days(warehouse, "quarantine", directory)
    with Aside(warehouse, directory) as aside:
        for group in _groups(messages):
            bronze.add(pa.Table.from_batches(group))
            for events, refused in (typed(batch, bounds) for batch in group):
                aside.write(events)
                quarantine.add(pa.Table.from_batches([refused]))
    return Landed(bronze=bronze.close(), quarantine=quarantine.close(), aside=aside.path, events=aside.events)


def _groups(messages: Iterable[pa.RecordBatch]) -> Iterator[list[pa.RecordBatch]]:
    batches = iter(messages)
    while group := list(islice(batches, GROUP)):
        yield group
