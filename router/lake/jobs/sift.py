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

from router.lake.jobs.aside import put_aside
from router.lake.jobs.days import put
from router.lake.tables.arrow import EVENT
from router.lake.tables.gold import partials
from router.lake.tables.late import windows
from router.lake.warehouse import File, Warehouse

GRAINS: dict[str, Literal["minute", "day"]] = {"gold_minute": "minute", "gold_day": "day"}

Added = dict[str, list[File]]


class Sifting(Struct, frozen=True, kw_only=True):
    """One task. Spark sends it to an executor."""

    warehouse: str
    aside: str
    gone: pa.Array  # sequences of events that do not count
    directory: str  # of the files to write
    sealed: frozenset[date]
    revision: int


class Sifted(Struct, frozen=True):
    """The files that a task wrote, and the rejected events."""

    added: Added
    gone: pa.Table


def sifted(spark: SparkSession, tasks: Sequence[Sifting]) -> Sifted:
    """Run all tasks, side by side."""
    done = spark.sparkContext.parallelize(tasks, max(1, len(tasks))).map(sift).collect()
    return Sifted(joined(one.added for one in done), pa.concat_tables([EVENT.empty_table(), *(one.gone for one in done)]))


def sift(one: Sifting) -> Sifted:
    """Write one range's events into silver and gold."""
    warehouse = Warehouse(one.warehouse)
    counting, gone = parted(one)
    added = {"silver": put(counting, warehouse, "silver", one.directory)}
    for table, sums in summed(counting, one.sealed).items():
        revision = pa.repeat(pa.scalar(one.revision, pa.int64()), len(sums))
        added[table] = put(sums.append_column("revision", revision), warehouse, table, one.directory)
    return Sifted(added, gone)


def parted(one: Sifting) -> tuple[pa.Table, pa.Table]:
    """Return the events that count, and the rejected ones."""
    events = put_aside(Warehouse(one.warehouse), one.aside)
    is_gone = pc.is_in(events["seq"], one.gone)
    return events.filter(pc.invert(is_gone)), events.filter(is_gone)


def summed(events: pa.Table, sealed: frozenset[date]) -> dict[str, pa.Table]:
    """Sum the events for each table of gold."""
    return {table: partials(windows(events, sealed, grain)) for table, grain in GRAINS.items()}


def joined(parts: Iterable[Added]) -> Added:
    whole: Added = {}
    for part in parts:
        for table, files in part.items():
            whole.setdefault(table, []).extend(files)
    return whole
