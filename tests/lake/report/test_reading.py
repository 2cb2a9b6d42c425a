"""What docs/how-to/read-the-tables.md tells others to type gives them the committed rows and no
others.
"""

import re
from decimal import Decimal
from pathlib import Path
from typing import Any

import duckdb
import pyarrow.parquet as pq
import pytest
from deltalake import DeltaTable

from router.lake.report import UsageQuery, read_report
from tests.support.lake_commits import replace_files
from tests.support.lake_gold import Use, a_warehouse
from tests.support.lake_jobs import Lake, a_body, an_adjustment

PAGE = Path(__file__).parents[3] / "docs/how-to/read-the-tables.md"


def the_page(language: str, heading: str) -> str:
    """The code of this language below a heading."""
    part = PAGE.read_text().split(f"\n## {heading}\n")[1].split("\n## ")[0]
    return "\n".join(re.findall(rf"```{language}\n(.*?)```", part, re.DOTALL))


def type_in(home: Path, *headings: str) -> dict[str, Any]:
    """What the page's Python leaves in its names."""
    names: dict[str, Any] = {}
    code = "\n".join(the_page("python", heading) for heading in headings).replace(
        ".router/warehouse", str(home)
    )
    exec(compile(code, str(PAGE), "exec"), names)
    return names


def test_python_and_duckdb_see_what_is_committed_and_no_file_more(lake: Lake) -> None:
    """UL-6."""
    lake.take(
        a_body("r-1", cost="1.5"),
        a_body("r-2", tenant_id="zed", cost="0.000000001"),
        a_body("r-3", cost="9.0", correlated=False),
    )
    lake.take(
        an_adjustment(cost="-0.25"),
        an_adjustment("b", cost="-9.0", adjustment="budget", budget="month"),
    )
    (file,) = [file for file in lake.warehouse.files("silver") if file.rows][:1]
    left = lake.home / file.path
    pq.write_table(pq.read_table(left), left.with_name("of-a-job-that-died.parquet"))
    # a batch without its cut
    lake.warehouse.tables["gold_day"].commit(lake.warehouse.files("gold_day"), lambda _: [])
    found = type_in(lake.home, "Python", "DuckDB")
    assert sorted((row["tenant_id"], row["cost_sum"]) for row in found["costs"]) == [
        ("acme", Decimal("1.25")),
        ("zed", Decimal("0.000000001")),
    ]
    assert found["rows"] == [
        ("acme", 1, Decimal("1.250000000")),
        ("zed", 1, Decimal("0.000000001")),
    ]


def test_a_table_that_was_rewritten_is_read_as_of_the_cut(tmp_path: Path) -> None:
    """UL-6."""
    warehouse = a_warehouse(tmp_path, [Use(cost="1.5")], [Use(cost="7")])
    replace_files(warehouse, "gold_day", warehouse.files("gold_day")[1:])
    gold = DeltaTable(
        str(tmp_path / "gold_day"),
        version=(warehouse.cut() or pytest.fail("no cut")).versions["gold_day"],
    )
    assert gold.to_pyarrow_table(columns=["cost"])["cost"].to_pylist() == [Decimal("1.5")]


def test_percentiles_from_gold_are_the_report_s(tmp_path: Path) -> None:
    uses = [
        Use(provider=provider, latencies=tuple(range(first, first + 900, 7)))
        for provider, first in (("x", 1), ("y", 500), ("x", 300))
    ]
    warehouse = a_warehouse(tmp_path, uses)
    gold = DeltaTable(str(tmp_path / "gold_day")).to_pyarrow_table(  # noqa: F841 - the SQL names it
        columns=["provider_id", "histogram"]
    )
    found = dict(duckdb.sql(the_page("sql", "Percentiles from gold")).fetchall())
    lines = read_report(warehouse, UsageQuery(by=("provider_id",))).lines
    assert found == pytest.approx(
        {line.group["provider_id"]: line.percentiles["latency_p99_ms"] for line in lines}, rel=0.01
    )
