"""The same sums by Spark, for a warehouse that a cluster can reach and this machine cannot. The
result is small.
"""

from __future__ import annotations

import pyarrow as pa
import pyarrow.compute as pc
from pyspark.sql import Column, DataFrame, SparkSession
from pyspark.sql import functions as f

from router.lake.report.lines import CORRECTIONS, FAILED_STATUSES, UsageQuery
from router.lake.report.partials import SUMS, ReportPart
from router.lake.report.read import TABLE
from router.lake.tables.gold import widen
from router.lake.tables.gold_columns import AMOUNTS as GOLD_AMOUNTS
from router.lake.tables.schemas import SCHEMAS
from router.lake.warehouse import Warehouse

AMOUNTS = (*sorted(GOLD_AMOUNTS), "correction_cost")


def read_parts_by_spark(
    spark: SparkSession, warehouse: Warehouse, query: UsageQuery, as_of_cut: int | None = None
) -> list[ReportPart]:
    """Return one part with all sums, or none if there is no file."""
    files = [
        file
        for file in warehouse.files(TABLE, as_of_cut)
        if not query.days or file.day in query.days
    ]
    if not files:
        return []
    rows = _filter_rows(
        spark.read.schema(SCHEMAS[TABLE]).parquet(
            *(warehouse.storage.uri(file.path) for file in files)
        ),
        query,
    )
    sums = _add_fractions(
        rows.groupBy(*query.by)
        .agg(*map(_sum_fraction, AMOUNTS), *(_sum(*figure) for figure in SUMS.items()))
        .toArrow()
    )
    entries = rows.select(*query.by, f.explode("histogram").alias("bucket", "n"))
    return [
        ReportPart(sums, entries.groupBy(*query.by, "bucket").agg(f.sum("n").alias("n")).toArrow())
    ]


def _filter_rows(rows: DataFrame, query: UsageQuery) -> DataFrame:
    rows = rows.withColumn("day", f.date_format("window_start", "yyyy-MM-dd"))
    rows = rows.withColumn(
        "failed", f.when(f.col("status").isin(*FAILED_STATUSES), f.col("count")).otherwise(0)
    )
    for name, of in CORRECTIONS.items():
        rows = rows.withColumn(
            name,
            f.when(f.col("corrects_window").isNotNull(), f.col(of)).otherwise(
                f.lit(0).cast(dict(rows.dtypes)[of])
            ),
        )
    for name, wanted in (("tenant_id", query.tenants), ("provider_id", query.providers)):
        rows = rows.where(f.col(name).isin(*wanted)) if wanted else rows
    return rows


def _sum(name: str, how: str) -> Column:
    """Sum a column. Spark's widest number has 38 digits, so an amount is summed in two parts that
    no sum can fill.
    """
    if how != "sum":
        return {"min": f.min, "max": f.max}[how](name).alias(name)
    return f.sum(_take_units(name) if name in AMOUNTS else f.col(name).cast("decimal(19,0)")).alias(
        name
    )


def _take_units(name: str) -> Column:
    """Return the whole units of an amount, rounded towards zero."""
    return f.when(f.col(name) < 0, f.ceil(name)).otherwise(f.floor(name)).cast("decimal(29,0)")


def _sum_fraction(name: str) -> Column:
    """Sum an amount without its whole units: a remainder keeps all nine places, where a difference
    would round.
    """
    return f.sum(f.col(name) % f.lit(1).cast("decimal(1,0)")).alias(f"{name}.fraction")


def _add_fractions(sums: pa.Table) -> pa.Table:
    """Add the two parts of each amount."""
    for name in AMOUNTS:
        units, fraction = (
            sums[part].cast(pa.decimal256(60, 9)) for part in (name, f"{name}.fraction")
        )
        place = sums.column_names.index(name)
        sums = sums.set_column(place, name, pc.add(units, fraction)).drop_columns(
            f"{name}.fraction"
        )
    return widen(sums)
