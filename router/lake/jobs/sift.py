"""The second half of a micro-batch, a range at a time: events that were put aside, without those that are gone, into silver and gold.

    aside ┬─ gone: a few, handed back ─> `turned_away`
          └─ the rest ──> silver/
                     └──> gold_minute/  gold_day/   partial sums of this range: they add up

A range is a task of Spark's; which events are gone was decided before, over all ranges.
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

Added = dict[str, list[File]]  # by table


class Sifting(Struct, frozen=True, kw_only=True):
    """One task. It travels to an executor."""

    warehouse: str
    aside: str
    gone: pa.Array  # sequences
    directory: str  # of the files to be written
    sealed: frozenset[date]
    revision: int


class Sifted(Struct, frozen=True):
    """The files that came of it, and the events that are gone."""

    added: Added
    gone: pa.Table


def sifted(spark: SparkSession, tasks: Sequence[Sifting]) -> Sifted:
    """All of them, side by side."""
    done = spark.sparkContext.parallelize(tasks, max(1, len(tasks))).map(sift).collect()
    return Sifted(joined(one.added for one in done), pa.concat_tables([EVENT.empty_table(), *(one.gone for one in done)]))


def sift(one: Sifting) -> Sifted:
    warehouse = Warehouse(one.warehouse)
    counting, gone = parted(one)
    added = {"silver": put(counting, warehouse, "silver", one.directory)}
    for table, sums in summed(counting, one.sealed).items():
        revision = pa.repeat(pa.scalar(one.revision, pa.int64()), len(sums))
        added[table] = put(sums.append_column("revision", revision), warehouse, table, one.directory)
    return Sifted(added, gone)


def parted(one: Sifting) -> tuple[pa.Table, pa.Table]:
    """The events that count, and those that are gone."""
    events = put_aside(Warehouse(one.warehouse), one.aside)
    is_gone = pc.is_in(events["seq"], one.gone)
    return events.filter(pc.invert(is_gone)), events.filter(is_gone)


def summed(events: pa.Table, sealed: frozenset[date]) -> dict[str, pa.Table]:
    """By table of gold."""
    return {table: partials(windows(events, sealed, grain)) for table, grain in GRAINS.items()}


def joined(parts: Iterable[Added]) -> Added:
    whole: Added = {}
    for part in parts:
        for table, files in part.items():
            whole.setdefault(table, []).extend(files)
    return whole
