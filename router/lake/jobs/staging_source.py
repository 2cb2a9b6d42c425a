"""`jetstream_staging`: the `jetstream` source with the same offsets, limits and ranges, but one row for each range: its files.

So no message crosses into the JVM, which would decode and encode it for nothing. When Spark wrote bronze and read it back, a
message cost 36 µs of processor time until its event was typed.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import msgspec
from pyspark.sql import SparkSession
from pyspark.sql.datasource import InputPartition
from pyspark.sql.types import StringType, StructField, StructType

from router.lake.jobs.staging import StagedRange, stage_range
from router.lake.source import JetStreamDataSource
from router.lake.source.offset import Json
from router.lake.source.options import SourceOptions, read_options
from router.lake.source.reader import JetStreamStreamReader
from router.lake.source.rows import MESSAGE_SCHEMA
from router.lake.tables.body import BOUNDS, EventBounds
from router.lake.warehouse import Warehouse

FORMAT = "jetstream_staging"
STAGED_ROW = StructType([StructField("landed", StringType(), nullable=False)])


class StagingSource(JetStreamDataSource):
    """Options: the source's own, `warehouse`, and `bounds` (EventBounds as JSON).

    Messages before `startingOffsets` are not staged, whatever a checkpoint says.
    """

    @classmethod
    def name(cls) -> str:
        return FORMAT

    def schema(self) -> StructType:
        return STAGED_ROW

    def streamReader(self, schema: StructType) -> StagingReader:  # noqa: N802 - Spark's name
        options = dict(self.options)
        bounds = msgspec.json.decode(options.pop("bounds", "{}"), type=EventBounds)
        return StagingReader(options.pop("warehouse"), read_options(options), bounds)


class StagingReader(JetStreamStreamReader):
    """Reads and stages its ranges in the tasks that Spark schedules."""

    def __init__(self, warehouse: str, options: SourceOptions, bounds: EventBounds = BOUNDS) -> None:
        super().__init__(options, MESSAGE_SCHEMA)
        self._warehouse = warehouse
        self._bounds = bounds

    def partitions(self, start: Json, end: Json) -> Sequence[InputPartition]:
        following = max(start["next"], self._options.start or 0)
        if following >= end["next"]:
            return []  # the log is ahead of the checkpoint
        return super().partitions({**start, "next": following}, end)

    def read(self, partition: InputPartition) -> Iterator[tuple[str]]:  # its rows differ from the source's
        yield (encode_range(stage_range(super().read(partition), Warehouse(self._warehouse), self._bounds)),)


def register(spark: SparkSession) -> None:
    spark.dataSource.register(StagingSource)


def encode_range(landed: StagedRange) -> str:
    return msgspec.json.encode(landed).decode()


def decode_range(row: str) -> StagedRange:
    return msgspec.json.decode(row, type=StagedRange)
