"""A new column of gold: files and seals from before it stay what they are."""

import json
import subprocess
import sys
from datetime import timedelta
from decimal import Decimal
from pathlib import Path

import msgspec
import pyarrow.parquet as pq
import pytest

from router.lake.generate import Load, LoadPlan
from router.lake.jobs.seal import seal
from router.lake.report import UsageQuery, read_report
from router.lake.report.lines import CORRECTIONS
from router.lake.report.lines import REPORT_FIGURES as REPORTED
from router.lake.tables.gold_columns import FIRST_FIGURES
from router.lake.warehouse import Seal, Warehouse
from tests.support.lake_gold import Use, a_warehouse
from tests.support.lake_jobs import NOON, Lake, a_body

DAY = NOON.date()

# The next version of the package: one more entry in the registry.
NEXT_VERSION = """
import json, sys
from router.lake.tables import gold_columns

added = gold_columns.GoldColumn(name="cost_max", kind=gold_columns.MONEY, fold="max", source="cost", label="cost_max")
gold_columns.GOLD_COLUMNS += (added,)
gold_columns.FOLDS[added.name] = added.fold
gold_columns.FIGURES += (added.name,)
gold_columns.AMOUNTS |= {added.name}

from router.lake.jobs.seal import is_unchanged
from router.lake.reconcile import reconcile
from router.lake.report import UsageQuery, read_report
from router.lake.tables.schemas import list_columns
from router.lake.warehouse import Warehouse
from tests.lake.without_jvm import IN_PROCESS

warehouse = Warehouse(sys.argv[1])
(line,) = read_report(warehouse, UsageQuery(by=("tenant_id",))).lines
found = {
    "columns": list_columns("gold_day")[-2:],
    "seals": [is_unchanged(warehouse, one) for one in warehouse.seals()],
    "figures": {name: str(value) for name, value in line.figures.items()},
    "agrees": reconcile(IN_PROCESS, warehouse).is_right,
}
print(json.dumps(found))
"""


def drop_column(warehouse: Warehouse, name: str, *paths: str) -> None:
    """Write files of gold_day again, as a version without this column wrote them."""
    for path in paths:
        file = Path(warehouse.storage.resolve(path))
        pq.write_table(pq.ParquetFile(file).read().drop_columns([name]), file)


@pytest.mark.parametrize(
    "old_files", [(0,), (0, 1)], ids=["a new file beside it", "no new file that day"]
)
def test_a_report_reads_days_with_files_from_before_a_column(
    tmp_path: Path, old_files: tuple[int, ...]
) -> None:
    warehouse = a_warehouse(
        tmp_path, [Use(latencies=(10,), cost="1.5")], [Use(latencies=(30,), cost="2.5")]
    )
    files = [file.path for file in warehouse.files("gold_day")]
    drop_column(warehouse, "latency_sum", *(files[number] for number in old_files))
    (line,) = read_report(warehouse, UsageQuery()).lines
    assert (line.count, line.cost) == (2, Decimal(4))
    assert line.to_json()["latency_sum_ms"] == sum(
        latency for number, latency in enumerate((10, 30)) if number not in old_files
    )


def test_one_entry_is_a_new_column_and_changes_no_seal_and_no_report_of_before(lake: Lake) -> None:
    """A seal that hashed the columns of the day it is verified on differed after every new column."""
    lake.take(a_body("r-1", cost="1.5"))
    seal(lake.warehouse, DAY, DAY)
    lake.take(a_body("r-2", cost="2.5", at=NOON + timedelta(days=1)), came=NOON + timedelta(days=1))
    script = [sys.executable, "-c", NEXT_VERSION, lake.warehouse.location]
    found = json.loads(subprocess.run(script, capture_output=True, text=True, check=True).stdout)
    assert found["seals"] == [True]
    assert (found["figures"]["count"], found["figures"]["cost"], found["figures"]["cost_max"]) == (
        "2",
        "4.000000000",
        "None",
    )
    assert found["columns"] == [["estimated_cost", "decimal(38,9)"], ["cost_max", "decimal(38,9)"]]
    assert found["agrees"]


def test_a_seal_from_before_seals_kept_their_columns_is_of_the_first_version() -> None:
    old = {
        "first_day": "2026-10-01",
        "last_day": "2026-10-31",
        "sequence": 7,
        "id": "s",
        "cut": 3,
        "rows": 1,
        "hash": "0" * 64,
    }
    assert msgspec.convert(old, Seal).columns == FIRST_FIGURES


def test_the_exact_figures_of_a_load_have_every_column_of_a_report() -> None:
    load = Load(LoadPlan(events=50, conflicts=0))
    for _ in load.make_chunks():
        pass
    assert set(REPORTED) - CORRECTIONS.keys() < load.truth.make_rows()[0].keys()
