"""The `jetstream` format: its options and the schema of its rows. The readers do the rest."""

from __future__ import annotations

from pyspark.sql import SparkSession
from pyspark.sql.datasource import DataSource
from pyspark.sql.types import StructType

from router.lake.source.options import SourceOptions, read_options
from router.lake.source.reader import JetStreamReader, JetStreamStreamReader
from router.lake.source.rows import MESSAGE_SCHEMA


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
