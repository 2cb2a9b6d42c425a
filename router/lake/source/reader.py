"""What Spark calls: the `jetstream` format, where a query starts, where a micro-batch ends, its
partitions and their rows.

The planner (driver) and the readers (executors) are different processes: what travels between them
are options, offsets and ranges, all plain values.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import pyarrow as pa
from pyspark.sql import SparkSession
from pyspark.sql.datasource import (
    DataSource,
    DataSourceReader,
    DataSourceStreamReader,
    InputPartition,
)
from pyspark.sql.pandas.types import to_arrow_schema
from pyspark.sql.streaming.datasource import (
    ReadAllAvailable,
    ReadLimit,
    ReadMaxBytes,
    ReadMaxRows,
    SupportsTriggerAvailableNow,
)
from pyspark.sql.types import StructType

from router.core.errors import Misconfigured
from router.lake.source.broker import read_facts
from router.lake.source.fetch import read_record_batches
from router.lake.source.offset import (
    Json,
    SequenceRange,
    StreamState,
    limit_batch,
    make_offset,
    resolve_offset,
    resolve_start,
    split,
)
from router.lake.source.options import SourceOptions, read_options
from router.lake.source.rows import MESSAGE_SCHEMA


class RangePartition(InputPartition):
    """A range that travels to an executor."""

    def __init__(self, of: SequenceRange) -> None:
        super().__init__((of.start, of.end, of.created))


class _RangeReader:
    """What batch and streaming share: a range becomes partitions, a partition becomes rows."""

    def __init__(self, options: SourceOptions, schema: StructType) -> None:
        self._options = options
        self._schema = schema

    def _split(self, whole: SequenceRange) -> list[InputPartition]:
        return [
            RangePartition(bounds)
            for bounds in split(whole, self._options.partitions, self._options.rows_per_partition)
        ]

    def _resolve(self, offset: Json, facts: StreamState) -> int:
        return resolve_offset(offset, facts, fails_on_loss=self._options.fails_on_loss)

    def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
        return read_record_batches(
            self._options,
            SequenceRange(*partition.value),
            to_arrow_schema(self._schema, timezone="UTC"),
        )


class JetStreamReader(_RangeReader, DataSourceReader):
    """A batch: the range between `startingOffsets` and `endingOffsets`, fixed when Spark plans it."""

    def partitions(self) -> Sequence[InputPartition]:
        facts = read_facts(self._options)
        start = resolve_start(self._options.start, facts)
        end = facts.head if self._options.end is None else min(self._options.end + 1, facts.head)
        if start >= end:
            # Spark wants at least one
            return [RangePartition(SequenceRange(start, start, facts.created))]
        return self._split(
            SequenceRange(self._resolve(make_offset(facts, start), facts), end, facts.created)
        )


class JetStreamStreamReader(_RangeReader, DataSourceStreamReader, SupportsTriggerAvailableNow):
    """A streaming query, one micro-batch at a time."""

    def __init__(self, options: SourceOptions, schema: StructType) -> None:
        super().__init__(options, schema)
        self._target: StreamState | None = None  # of AvailableNow: later messages are not read

    def initialOffset(self) -> Json:  # noqa: N802 - Spark's name
        facts = read_facts(self._options)
        start = resolve_start(self._options.start, facts)
        if start > facts.head:
            raise Misconfigured("startingOffsets", f"{start}: the stream ends at {facts.last}")
        return make_offset(facts, start)

    def getDefaultReadLimit(self) -> ReadLimit:  # noqa: N802
        if self._options.max_rows is not None:
            return ReadMaxRows(self._options.max_rows)
        return (
            ReadMaxBytes(self._options.max_bytes)
            if self._options.max_bytes is not None
            else ReadAllAvailable()
        )

    def latestOffset(self, start: Json, limit: ReadLimit) -> Json:  # noqa: N802
        """Return where the next micro-batch ends. The trigger decides whether a limit applies."""
        facts = self._target or read_facts(self._options)
        at = self._resolve(start, facts)
        rows = limit.max_rows if isinstance(limit, ReadMaxRows) else None
        size = limit.max_bytes if isinstance(limit, ReadMaxBytes) else None
        return make_offset(facts, limit_batch(at, facts, max_rows=rows, max_bytes=size))

    def prepareForTriggerAvailableNow(self) -> None:  # noqa: N802
        self._target = read_facts(self._options)

    def reportLatestOffset(self) -> Json | None:  # noqa: N802
        """Return the head, for StreamingQueryProgress: a query lags by this `next` less its own."""
        facts = read_facts(self._options)
        return make_offset(facts, facts.head)

    def partitions(self, start: Json, end: Json) -> Sequence[InputPartition]:
        facts = read_facts(self._options)
        at = self._resolve(start, facts)
        if end["created"] != facts.created:
            # the stream was recreated since, and that loss is allowed: its messages cannot be read
            return []
        return self._split(SequenceRange(at, end["next"], facts.created))

    def commit(self, end: Json) -> None:
        """Do nothing: a stream with limits keeps its messages whether they were read or not."""


# -- The `jetstream` format: its options and the schema of its rows. The readers do the rest.


class JetStreamDataSource(DataSource):
    """`spark.read` and `spark.readStream` of a JetStream stream; see the package's docstring."""

    @classmethod
    def name(cls) -> str:
        return "jetstream"

    def schema(self) -> StructType:
        return MESSAGE_SCHEMA

    def reader(self, schema: StructType) -> JetStreamReader:
        return JetStreamReader(self._read_options(), schema)

    def streamReader(self, schema: StructType) -> JetStreamStreamReader:  # noqa: N802 - Spark's name
        return JetStreamStreamReader(self._read_options(), schema)

    def _read_options(self) -> SourceOptions:
        return read_options(dict(self.options))


def register(spark: SparkSession) -> None:
    spark.dataSource.register(JetStreamDataSource)
