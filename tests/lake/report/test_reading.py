"""What deploy/spark/READING.md tells others to type gives them the committed rows and no others."""

import re
from decimal import Decimal
from pathlib import Path

import duckdb
import pyarrow.parquet as pq
import pytest

from router.lake.report import UsageQuery, read_report
from router.lake.warehouse import Commit, Warehouse
from tests.support.lake_gold import Use, a_warehouse

PAGE = Path(__file__).parents[3] / "deploy/spark/READING.md"


def the_page(heading: str) -> list[str]:
    """The SQL below a heading, a statement each."""
    part = PAGE.read_text().split(f"\n## {heading}\n")[1].split("\n## ")[0]
    return [statement for block in re.findall(r"```sql\n(.*?)```", part, re.DOTALL) for statement in block.split(";") if statement.strip()]


def test_duckdb_sees_what_is_committed_and_no_file_more(tmp_path: Path) -> None:
    """UL-6."""
    warehouse = a_warehouse(tmp_path, [Use(cost="1.5")], [Use(tenant="zed", cost="0.000000001")], [Use(cost="7")])
    gone = warehouse.files("gold_day")[2].path
    warehouse.append(lambda number, at: Commit(commit=number, kind="compact", at=at, remove={"gold_day": [gone]}), after=3)
    kept = tmp_path / warehouse.files("gold_day")[0].path
    pq.write_table(pq.read_table(kept), kept.with_name("of-a-job-that-died.parquet"))
    place, macro, files, question = the_page("DuckDB")
    database = duckdb.connect()
    database.execute(place.replace(".router/warehouse", str(tmp_path)))
    database.execute(macro)
    database.execute(files.replace("silver", "gold_day"))
    assert database.execute(question).fetchall() == [("acme", 1, Decimal("1.500000000")), ("zed", 1, Decimal("0.000000001"))]
    assert [row[0] for row in database.execute("select file from committed('gold_day') order by all").fetchall()] == sorted(
        Warehouse(str(tmp_path)).paths("gold_day")
    )


def test_percentiles_from_gold_are_the_report_s(tmp_path: Path) -> None:
    uses = [Use(provider=provider, latencies=tuple(range(first, first + 900, 7))) for provider, first in (("x", 1), ("y", 500), ("x", 300))]
    warehouse = a_warehouse(tmp_path, uses)
    database = duckdb.connect()
    for statement in the_page("DuckDB")[:2]:
        database.execute(statement.replace(".router/warehouse", str(tmp_path)))
    files, question = the_page("Percentiles from gold")
    database.execute(files)
    found = dict(database.execute(question).fetchall())
    lines = read_report(warehouse, UsageQuery(by=("provider_id",))).lines
    assert found == pytest.approx({line.group["provider_id"]: line.percentiles["latency_p99_ms"] for line in lines}, rel=0.01)
