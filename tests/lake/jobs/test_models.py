"""The model from the event to the bill: gold, report, export and FOCUS say what each model used,
and a seal keeps it.
"""

import csv
from datetime import timedelta
from decimal import Decimal
from pathlib import Path

import pyarrow.parquet as pq
import pytest

from router.lake.jobs.backfill import Backfill
from router.lake.jobs.erase import erase
from router.lake.jobs.maintenance import compact
from router.lake.jobs.seal import is_unchanged, seal
from router.lake.reconcile import reconcile
from router.lake.report import UsageQuery, parse_dimensions, read_report
from router.lake.report.export import ExportFormat, Period, export
from router.lake.report.page import PAGE_COLUMNS, render_page
from router.lake.report.read import read_parts
from tests.lake.without_jvm import IN_PROCESS
from tests.support.lake_jobs import NOON, Lake, a_body, an_adjustment

DAY = NOON.date()
LATER = NOON + timedelta(days=1)
TELLS = (
    a_body("r-1", cost="2.0", model="large", input_tokens=10),
    a_body("r-2", cost="1.0", model="large", input_tokens=5),
    a_body("r-3", cost="0.25", model="small", output_tokens=7),
    a_body("r-4", cost="0.5"),
)


def by_model(lake: Lake) -> dict[str, tuple[int, Decimal, object]]:
    lines = read_report(lake.warehouse, UsageQuery(by=("model",))).lines
    return {
        line.group["model"]: (line.count, line.cost, line.figures["input_tokens"]) for line in lines
    }


def sum_by_model(lake: Lake, table: str) -> dict[str, tuple[int, Decimal]]:
    """Add up what the tasks of a batch wrote, a file each."""
    found: dict[str, tuple[int, Decimal]] = {}
    for row in lake.rows(table):
        count, cost = found.get(row["model"], (0, Decimal(0)))
        found[row["model"]] = count + row["count"], cost + row["cost"]
    return found


def is_right(lake: Lake) -> bool:
    return reconcile(IN_PROCESS, lake.warehouse).is_right


def test_hours_and_days_are_summed_by_model_and_minutes_are_not(lake: Lake) -> None:
    """UL-41."""
    lake.take(*TELLS)
    for table in ("gold_hour", "gold_day"):
        assert sum_by_model(lake, table) == {
            "large": (2, Decimal(3)),
            "small": (1, Decimal("0.25")),
            "": (1, Decimal("0.5")),
        }
    minutes = lake.rows("gold_minute")
    assert (sum(row["count"] for row in minutes), sum(row["cost"] for row in minutes)) == (
        4,
        Decimal("3.75"),
    )
    assert not any("model" in row for row in minutes)


def test_a_report_groups_by_model(lake: Lake) -> None:
    lake.take(*TELLS[:2])
    lake.take(*TELLS[2:])
    assert by_model(lake) == {
        "large": (2, Decimal(3), 15),
        "small": (1, Decimal("0.25"), 0),
        "": (1, Decimal("0.5"), 0),
    }
    assert parse_dimensions(["model", "day"]) == ("model", "day")
    assert {
        line.to_json()["model"] for line in read_report(lake.warehouse, UsageQuery()).lines
    } == {"large", "small", ""}


def test_the_page_shows_what_each_model_costs(lake: Lake) -> None:
    lake.take(*TELLS, a_body("r-5", model="<b>x</b>"))
    page = render_page(list(read_parts(lake.warehouse, UsageQuery(by=PAGE_COLUMNS))), "All events")
    card = page.split("<h2>Models")[1].split("</section>")[0]
    assert [name in card for name in ("large: 3", "small: 0.25", "none told: 0.5")] == [
        True,
        True,
        True,
    ]
    assert "<b>" not in page


@pytest.mark.parametrize(
    ("form", "column", "none"),
    [("parquet", "model", ""), ("csv", "model", ""), ("focus", "x_Model", None)],
)
def test_an_export_has_a_row_for_each_model(
    lake: Lake, tmp_path: Path, form: ExportFormat, column: str, none: str | None
) -> None:
    """UL-37, UL-41."""
    lake.take(*TELLS)
    file = tmp_path / ("usage.csv" if form == "csv" else "usage.parquet")
    export(lake.warehouse, Period(DAY, DAY), form, file, currency="USD")
    rows = (
        list(csv.DictReader(file.read_text().splitlines()))
        if form == "csv"
        else pq.read_table(file).to_pylist()
    )
    cost = "BilledCost" if form == "focus" else "cost"
    assert {row[column]: Decimal(row[cost]) for row in rows} == {
        "large": 3,
        "small": Decimal("0.25"),
        none: Decimal("0.5"),
    }


def test_a_model_that_is_a_formula_is_text_for_a_spreadsheet(lake: Lake, tmp_path: Path) -> None:
    lake.take(a_body(model="=1+1"))
    for form in ("csv", "focus"):
        export(lake.warehouse, Period(DAY, DAY), form, tmp_path / "usage.csv", currency="USD")  # type: ignore[arg-type]
        (row,) = csv.DictReader((tmp_path / "usage.csv").read_text().splitlines())
        assert row["x_Model" if form == "focus" else "model"] == "'=1+1"


def test_an_adjustment_counts_under_the_model_that_it_names(lake: Lake) -> None:
    """UL-39, UL-41."""
    lake.take(
        *TELLS,
        an_adjustment("one", cost="-0.5", model="large"),
        an_adjustment("two", cost="-0.125"),
    )
    assert {name: cost for name, (_, cost, _) in by_model(lake).items()} == {
        "large": Decimal("2.5"), "small": Decimal("0.25"), "": Decimal("0.375"),
    }  # fmt: skip
    assert is_right(lake)


def test_a_seal_keeps_the_models_and_a_later_event_corrects_its_own(lake: Lake) -> None:
    """UL-10, UL-41."""
    lake.take(*TELLS)
    sealed = seal(lake.warehouse, DAY, DAY)
    lake.take(a_body("r-5", cost="4.0", model="small"), came=LATER)
    assert sealed.rows == 3
    assert is_unchanged(lake.warehouse, sealed)
    (line,) = read_report(
        lake.warehouse, UsageQuery(by=("model",), days=(str(LATER.date()),))
    ).lines
    assert (line.group["model"], line.corrections["correction_cost"]) == ("small", Decimal(4))
    assert is_right(lake)


def test_reconciliation_finds_money_that_moved_from_one_model_to_another(lake: Lake) -> None:
    """UL-9, UL-41."""
    lake.take(*TELLS)
    compact(lake.warehouse)
    (file,) = lake.warehouse.files("gold_day")
    path = lake.warehouse.storage.resolve(file.path)
    rows = pq.ParquetFile(path).read()
    renamed = rows["model"].to_pylist()
    renamed[renamed.index("small")] = "cheap"
    pq.write_table(rows.set_column(rows.column_names.index("model"), "model", [renamed]), path)
    check = next(
        one
        for one in reconcile(IN_PROCESS, lake.warehouse).checks
        if one.name == "silver = gold_day"
    )
    assert list(check.ids) == [
        f"{DAY}/acme/openai/chat/success/{name}" for name in ("cheap", "small")
    ]


def test_compaction_backfill_and_erasure_keep_the_models(lake: Lake) -> None:
    lake.take(*TELLS[:2])
    lake.take(*TELLS[2:], a_body("r-9", tenant_id="zed", model="large", cost="9.0"))
    before = by_model(lake)
    compact(lake.warehouse)
    assert Backfill(lake.spark, lake.warehouse, DAY, DAY).compare().is_none
    assert by_model(lake) == before
    erase(lake.warehouse, "zed")
    assert by_model(lake) == {**before, "large": (2, Decimal(3), 15)}
    assert is_right(lake)
