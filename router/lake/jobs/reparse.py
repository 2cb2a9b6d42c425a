"""Read bronze again: parse the events of some days anew and stage them, one file of bronze at a time.

Messages in quarantine stay there and events that count go on counting, whatever bounds the settings have now: for a message,
the bounds hold that were set when it was ingested.
"""

from __future__ import annotations

from uuid import uuid4

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq
from msgspec import Struct
from pyspark.sql import SparkSession

from router.lake.jobs.staging_file import StagingFile
from router.lake.tables.arrow import MESSAGE
from router.lake.tables.body import ANY_BOUNDS
from router.lake.tables.event import parse_messages
from router.lake.tables.late import floor_to_days
from router.lake.warehouse import DataFile, Warehouse

ROWS_PER_READ = 16_384  # read at once


class ReparseTask(Struct, frozen=True, kw_only=True):
    """One task. Spark sends it to an executor."""

    warehouse: str
    path: str  # of bronze
    quarantined: pa.Array  # sequences
    days: pa.Array  # of events


def reparse_all(spark: SparkSession, warehouse: Warehouse, bronze: list[DataFile], quarantined: pa.Array, days: pa.Array) -> list[str]:
    """Stage the days' events of all these files and return the staging files; files of bronze without such events have none."""
    tasks = [
        ReparseTask(warehouse=warehouse.location, path=file.path, quarantined=_select_within(quarantined, file), days=days)
        for file in bronze
    ]
    paths = spark.sparkContext.parallelize(tasks, max(1, len(tasks))).map(reparse).collect()
    return [path for path in paths if path is not None]


def reparse(one: ReparseTask) -> str | None:
    warehouse = Warehouse(one.warehouse)
    storage = warehouse.storage
    with StagingFile(warehouse, f"backfill-{uuid4().hex[:12]}") as staging:
        for messages in pq.ParquetFile(storage.resolve(one.path), filesystem=storage.filesystem).iter_batches(ROWS_PER_READ):
            is_quarantined = pc.is_in(messages["seq"], one.quarantined)
            events, _ = parse_messages(messages.select(MESSAGE.names).filter(pc.invert(is_quarantined)), ANY_BOUNDS)
            staging.write(events.filter(pc.is_in(floor_to_days(events["timestamp"]), one.days)))
    return staging.path if staging.events else None


def _select_within(sequences: pa.Array, file: DataFile) -> pa.Array:
    """Return the sequences that this file may hold."""
    if file.min_seq is None or file.max_seq is None:
        return sequences
    return sequences.filter(pc.and_(pc.greater_equal(sequences, file.min_seq), pc.less_equal(sequences, file.max_seq)))
