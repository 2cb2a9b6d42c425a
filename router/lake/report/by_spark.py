"""The same sums by Spark, for a warehouse that this machine cannot reach but a cluster can. What comes back is small."""

from __future__ import annotations

from pyspark.sql import Column, DataFrame, SparkSession
from pyspark.sql import functions as f

from router.lake.report.lines import FAILED, Query
from router.lake.report.partials import SUMS, Part
from router.lake.report.read import TABLE
from router.lake.tables.schemas import MONEY, SCHEMAS
from router.lake.warehouse import Warehouse


def spark_parts(spark: SparkSession, warehouse: Warehouse, query: Query, as_of_commit: int | None = None) -> list[Part]:
    """One part, added up already; none where there is no file."""
    files = [file for file in warehouse.files(TABLE, as_of_commit) if not query.days or file.day in query.days]
    if not files:
        return []
    rows = _wanted(spark.read.schema(SCHEMAS[TABLE]).parquet(*(warehouse.storage.uri(file.path) for file in files)), query)
    sums = rows.groupBy(*query.by).agg(*(_sum(name, how) for name, how in SUMS.items()))
    entries = rows.select(*query.by, f.explode("histogram").alias("bucket", "n"))
    return [Part(sums.toArrow(), entries.groupBy(*query.by, "bucket").agg(f.sum("n").alias("n")).toArrow())]


def _wanted(rows: DataFrame, query: Query) -> DataFrame:
    rows = rows.withColumn("day", f.date_format("window_start", "yyyy-MM-dd"))
    rows = rows.withColumn("failed", f.when(f.col("status").isin(*FAILED), f.col("count")).otherwise(0))
    for name, wanted in (("tenant_id", query.tenants), ("provider_id", query.providers)):
        rows = rows.where(f.col(name).isin(*wanted)) if wanted else rows
    return rows


def _sum(name: str, how: str) -> Column:
    added = {"sum": f.sum, "min": f.min, "max": f.max}[how](name)
    return (added.cast(MONEY) if name == "cost" else added).alias(name)
