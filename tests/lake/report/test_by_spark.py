"""Spark reads the same report out of the same files."""

from decimal import Decimal
from pathlib import Path
from random import Random

import pytest
from pyspark.sql import SparkSession

from router.lake.report import DIMENSIONS, UsageQuery, make_report, read_report
from router.lake.report.by_spark import read_parts_by_spark
from tests.support.lake_gold import Use, a_warehouse
from tests.support.lake_jobs import Lake, a_body, an_adjustment


@pytest.mark.slow
@pytest.mark.timeout(300)
def test_spark_and_pyarrow_say_the_same(spark: SparkSession, lake: Lake, tmp_path: Path) -> None:
    """Slow: a JVM starts, and its first queries are its slowest."""
    rng = Random(3)
    uses = [
        Use(tenant=rng.choice("abc"), provider=rng.choice("xy"), status=rng.choice(("success", "error")), model=rng.choice(("", "large")),
            day=f"2026-11-2{rng.randrange(3)}", latencies=tuple(rng.choices(range(900), k=5)), cost=f"{rng.randrange(10**13)}e-9")
        for _ in range(120)
    ]  # fmt: skip
    uses += [
        Use(tenant="huge", cost="99900000000000000000000000000.000000001", latencies=(2**62,))
        for _ in range(3)
    ]
    warehouse = a_warehouse(tmp_path / "uses", uses[:60], uses[60:])
    for query in (
        UsageQuery(),
        UsageQuery(by=("tenant_id", "day"), days=("2026-11-21",), providers=("x",)),
        UsageQuery(tenants=("unknown",)),
    ):
        assert make_report(read_parts_by_spark(spark, warehouse, query), query.by) == read_report(
            warehouse, query
        )
    lake.take(
        a_body(cost="2.0", model="large", input_tokens=7, estimated=True),
        an_adjustment(cost="-7.000000001", model="large"),
        a_body("r-2", correlated=False),
    )
    for by in (DIMENSIONS, ("tenant_id",), ("event_type",), ("model",)):
        query = UsageQuery(by=by)
        made = make_report(read_parts_by_spark(spark, lake.warehouse, query), by)
        assert made == read_report(lake.warehouse, query)
        assert made.totals is not None
        assert made.totals.cost == Decimal("-5.000000001")
