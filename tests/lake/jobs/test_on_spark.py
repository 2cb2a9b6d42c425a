"""The jobs on a Spark of its own: what the other tests here have one process do, and the same comes
of it.
"""

from decimal import Decimal
from pathlib import Path

import pytest
from pyspark.sql import SparkSession

from router.lake.jobs.backfill import Backfill, BackfillDifference
from router.lake.reconcile import Reconciliation, reconcile
from router.lake.reconcile.audit import AuditFound, audit
from router.lake.tables.schemas import SCHEMAS
from tests.support.lake_commits import replace_files
from tests.support.lake_jobs import NOON, Lake, a_body, an_adjustment

Tables = dict[str, list[dict[str, object]]]


@pytest.mark.slow
@pytest.mark.timeout(300)
def test_spark_and_one_process_make_the_same_tables(
    spark: SparkSession, no_jvm: SparkSession, tmp_path: Path
) -> None:
    """Slow: a JVM starts, and its first tasks are its slowest."""
    made, wanted = (
        made_on(Lake(spark, tmp_path / "spark")),
        made_on(Lake(no_jvm, tmp_path / "none")),
    )
    assert made == wanted
    # a backfill writes one row of gold for a group
    assert [len(rows) for rows in made[0].values()] == [10, 1, 6, 2, 1, 2, 3, 3]
    assert (made[1].events_missing, made[1].cost_then) == (4, Decimal("3.75"))
    assert made[2].is_right


def made_on(lake: Lake) -> tuple[Tables, BackfillDifference, Reconciliation, AuditFound]:
    """Two micro-batches with some of everything, the first one's events lost and made again; and
    what compares and counts them.
    """
    corrected, marked = an_adjustment(cost="-0.25"), a_body("r-4", cost="1e9", correlated=False)
    of_a_budget = an_adjustment("b", adjustment="budget", budget="month")
    lake.take(a_body("r-1", cost="1.0"), b"{broken", a_body("r-2", cost="2.0"), corrected, marked)
    told = a_body("r-3", cost="1.0", model="large", input_tokens=7, estimated=True)
    lake.take(a_body("r-1", cost="1.0"), a_body("r-2", cost="9.0"), told, corrected, of_a_budget)
    for table in ("silver", "gold_minute", "gold_hour", "gold_day"):
        kept = {file.path for file in lake.warehouse.files(table, 2)} - {
            file.path for file in lake.warehouse.files(table, 1)
        }
        replace_files(
            lake.warehouse,
            table,
            [file for file in lake.warehouse.files(table) if file.path not in kept],
        )
    work = Backfill(lake.spark, lake.warehouse, NOON.date(), NOON.date())
    found = work.compare()
    work.apply()
    tables = {table: lake.rows(table) for table in SCHEMAS}
    return tables, found, reconcile(lake.spark, lake.warehouse), audit(lake.spark, lake.warehouse)
