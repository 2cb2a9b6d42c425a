"""The second step of a micro-batch, one range at a time: drop the rejects from the staged events, write the rest to silver and gold.

    staged events ┬─ rejects: few, returned to the driver ─> `rejects`
                  └─ the rest ──> silver/
                             └──> gold_minute/  gold_day/   partial sums of this range: they add up

A range is one task of Spark. The driver decided before, over all ranges, which events are rejects.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from datetime import date
from typing import Literal

import pyarrow as pa
import pyarrow.compute as pc
from msgspec import Struct
from pyspark.sql import SparkSession

from router.lake.jobs.daily_writer import write_days
from router.lake.jobs.staging_file import read_staged
from router.lake.tables.arrow import EVENT
from router.lake.tables.gold import sum_events
from router.lake.tables.late import assign_windows
from router.lake.warehouse import DataFile, Warehouse

GRAINS: dict[str, Literal["minute", "day"]] = {"gold_minute": "minute", "gold_day": "day"}

FilesByTable = dict[str, list[DataFile]]


class DeriveTask(Struct, frozen=True, kw_only=True):
    """One task. Spark sends it to an executor."""

    warehouse: str
    staging_path: str
    rejects: pa.Array  # sequences of events that do not count
    directory: str  # of the files to write
    sealed: frozenset[date]
    revision: int


class DeriveResult(Struct, frozen=True):
    """The files that a task wrote, and the rejected events."""

    added: FilesByTable
    rejects: pa.Table


def derive_all(spark: SparkSession, tasks: Sequence[DeriveTask]) -> DeriveResult:
    """Run all tasks, side by side."""
    done = spark.sparkContext.parallelize(tasks, max(1, len(tasks))).map(derive).collect()
    return DeriveResult(merge_files(one.added for one in done), pa.concat_tables([EVENT.empty_table(), *(one.rejects for one in done)]))


def derive(one: DeriveTask) -> DeriveResult:
    """Write one range's events into silver and gold."""
    warehouse = Warehouse(one.warehouse)
    counting, rejected = split_events(one)
    added = {"silver": write_days(counting, warehouse, "silver", one.directory)}
    for table, sums in sum_by_table(counting, one.sealed).items():
        revision = pa.repeat(pa.scalar(one.revision, pa.int64()), len(sums))
        added[table] = write_days(sums.append_column("revision", revision), warehouse, table, one.directory)
    return DeriveResult(added, rejected)


def split_events(one: DeriveTask) -> tuple[pa.Table, pa.Table]:
    """Return the events that count, and the rejected ones."""
    events = read_staged(Warehouse(one.warehouse), one.staging_path)
    is_rejected = pc.is_in(events["seq"], one.rejects)
    return events.filter(pc.invert(is_rejected)), events.filter(is_rejected)


def sum_by_table(events: pa.Table, sealed: frozenset[date]) -> dict[str, pa.Table]:
    return {table: sum_events(assign_windows(events, sealed, grain)) for table, grain in GRAINS.items()}


def merge_files(parts: Iterable[FilesByTable]) -> FilesByTable:
    whole: FilesByTable = {}
    for part in parts:
        for table, files in part.items():
            whole.setdefault(table, []).extend(files)
    return whole
