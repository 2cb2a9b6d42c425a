"""Adjustments and marks from the message to the bill: silver, gold, report, export, seal and
reconciliation agree.
"""

from datetime import UTC, datetime, time, timedelta
from decimal import Decimal
from pathlib import Path

import orjson
import pyarrow.parquet as pq
import pytest
from msgspec.structs import replace

from router.contracts.usage import assignment_identity
from router.lake.jobs.backfill import Backfill
from router.lake.jobs.erase import erase
from router.lake.jobs.maintenance import compact
from router.lake.jobs.retention import drop_old_days
from router.lake.jobs.seal import is_unchanged, seal
from router.lake.reconcile import reconcile
from router.lake.report import UsageQuery, read_report
from router.lake.report.export import Period, export
from router.lake.tables.gold_columns import FIRST_FIGURES, GOLD_COLUMNS, GOLD_TABLES
from router.lake.tables.schemas import list_columns
from tests.lake.without_jvm import IN_PROCESS
from tests.support.lake_commits import replace_files
from tests.support.lake_jobs import NOON, Lake, a_body, an_adjustment

DAY = NOON.date()
LATER = NOON + timedelta(days=1)
A_BILL = {"assignment_id": "a-1", "event_id": assignment_identity("acme", "a-1")}


def bill_of(lake: Lake, *days: str) -> Decimal:
    totals = read_report(lake.warehouse, UsageQuery(days=days)).totals
    return Decimal(0) if totals is None else totals.cost


def charge_of(lake: Lake, path: Path, first: datetime, last: datetime) -> Decimal:
    """What FOCUS bills of these days."""
    export(
        lake.warehouse,
        Period(first.date(), last.date()),
        "focus",
        path / "focus.parquet",
        currency="USD",
    )
    return sum(pq.read_table(path / "focus.parquet")["BilledCost"].to_pylist(), Decimal(0))


def is_right(lake: Lake) -> bool:
    return reconcile(IN_PROCESS, lake.warehouse).is_right


def test_an_adjustment_before_the_seal_is_of_the_period_and_one_after_it_of_the_next(
    lake: Lake, tmp_path: Path
) -> None:
    """UL-5, UL-10, UL-39."""
    lake.take(a_body(cost="2.0", **A_BILL))
    corrects = {"adjusts": A_BILL["event_id"]}
    lake.take(an_adjustment("before", cost="-0.5", **corrects), came=LATER)
    sealed = seal(lake.warehouse, DAY, DAY)
    lake.take(an_adjustment("after", cost="-1.25", **corrects), came=LATER)
    assert (bill_of(lake, str(DAY)), bill_of(lake, str(LATER.date())), bill_of(lake)) == (
        Decimal("1.5"),
        Decimal("-1.25"),
        Decimal("0.25"),
    )
    assert (charge_of(lake, tmp_path, NOON, NOON), charge_of(lake, tmp_path, LATER, LATER)) == (
        Decimal("1.5"),
        Decimal("-1.25"),
    )
    (late,) = [row for row in lake.rows("gold_day") if row["corrects_window"] is not None]
    assert (late["window_start"].date(), late["corrects_window"]) == (
        LATER.date(),
        datetime.combine(DAY, time.min, UTC),
    )
    totals = read_report(lake.warehouse, UsageQuery()).totals
    assert totals is not None
    assert totals.corrections == {"correction_count": 0, "correction_cost": Decimal("-1.25")}
    assert is_unchanged(lake.warehouse, sealed)
    assert is_right(lake)


def test_silver_gold_report_export_and_reconciliation_agree_about_everything_that_costs(
    lake: Lake, tmp_path: Path
) -> None:
    """UL-9, UL-39, UL-40."""
    lake.take(
        a_body(cost="2.0", input_tokens=7, **A_BILL),
        a_body("r-2", cost="1e9", correlated=False),
        a_body(
            "r-3",
            cost="0.5",
            told_cost=9,
            estimated=True,
            event_id=assignment_identity("acme", "a-3"),
            tenant_id="zed",
        ),
    )
    for number, (kind, cost) in enumerate(
        {"outcome": "0.25", "held": "8.5", "bill": "-0.000000001"}.items()
    ):
        lake.take(an_adjustment(f"c-{number}", cost=cost, adjustment=kind))
    lake.take(an_adjustment("b-1", cost="-99.0", adjustment="budget", budget="month"))
    expected = Decimal("11.249999999")
    billed = [row for row in lake.rows("silver") if row["correlated"] and row["budget"] is None]
    assert sum(row["cost"] for row in billed) == expected
    for table in ("gold_minute", "gold_hour", "gold_day"):
        assert sum(row["cost"] for row in lake.rows(table)) == expected
    assert bill_of(lake) == charge_of(lake, tmp_path, NOON, NOON) == expected
    assert is_right(lake)
    assert Backfill(lake.spark, lake.warehouse, DAY, DAY).compare().is_none


def test_a_batch_of_adjustments_of_budgets_alone_is_a_batch(lake: Lake) -> None:
    lake.take(an_adjustment(adjustment="budget", budget="month"))
    assert (len(lake.rows("silver")), lake.rows("gold_day")) == (1, [])
    assert is_right(lake)


def test_an_adjustment_again_is_a_duplicate_and_with_other_content_a_conflict_that_tells_both(
    lake: Lake,
) -> None:
    """UL-1: the first one counts, for ever."""
    lake.take(an_adjustment(cost="-0.5"))
    lake.take(
        an_adjustment(cost="-0.5", reason="said otherwise"),
        an_adjustment(cost="-0.5", adjusts=A_BILL["event_id"]),
    )
    assert bill_of(lake) == Decimal("-0.5")
    assert len(lake.rows("duplicates")) == 1
    (conflict,) = lake.rows("conflicts")
    told = [orjson.loads(conflict[name]) for name in ("content", "first_content")]
    assert [one.get("adjusts") for one in told] == [A_BILL["event_id"], None]
    assert told[0]["adjustment"] == "bill"


def test_a_tenants_adjustments_are_erased_with_its_events(lake: Lake) -> None:
    """UL-35."""
    lake.take(
        a_body(cost="2.0"),
        an_adjustment(),
        a_body("r-2", tenant_id="zed"),
        an_adjustment("z", tenant_id="zed", cost="0.25"),
    )
    lake.take(a_body("r-3", correlated=False, cost="7.0"))
    erase(lake.warehouse, "acme")
    assert {
        row["tenant_id"]
        for table in ("silver", "gold_day", "gold_hour")
        for row in lake.rows(table)
    } == {"zed"}
    assert sum(row["cost"] for row in lake.rows("gold_minute")) == bill_of(lake) == Decimal("0.75")
    assert is_right(lake)


def test_a_day_that_is_dropped_keeps_the_sums_of_its_adjustments(lake: Lake) -> None:
    """UL-38."""
    lake.take(a_body(cost="2.0"), an_adjustment(cost="-0.5"), a_body("r-2", correlated=False))
    lake.take(a_body("r-3", at=LATER, cost="1.0"), came=LATER)
    sealed = seal(lake.warehouse, DAY, DAY)
    drop_old_days(lake.warehouse, LATER.date())
    assert [row["request_id"] for row in lake.rows("silver")] == ["r-3"]
    assert (bill_of(lake), is_right(lake), is_unchanged(lake.warehouse, sealed)) == (
        Decimal("2.5"),
        True,
        True,
    )


# -- a warehouse of before -------------------------------------------------------------------------

LATER_COLUMNS = [name for name, _ in list_columns("silver")][16:]
LATER_FIGURES = [one.name for one in GOLD_COLUMNS if one.name not in FIRST_FIGURES]


def write_as_before(lake: Lake, table: str, columns: list[str]) -> None:
    """Write the table's files again without these columns."""
    home = lake.warehouse.storage.resolve("")
    for file in lake.warehouse.files(table):
        path = file.path.replace("/day=", "/of-before/day=")
        Path(home + path).parent.mkdir(parents=True, exist_ok=True)
        pq.write_table(pq.ParquetFile(home + file.path).read().drop_columns(columns), home + path)
        replace_files(
            lake.warehouse,
            table,
            [file],
            [replace(file, path=path, bytes=Path(home + path).stat().st_size)],
        )


@pytest.fixture
def old(lake: Lake) -> Lake:
    """Files of before the columns came."""
    lake.take(a_body("r-1", cost="2.0"), a_body("r-2", cost="1.0"))
    write_as_before(lake, "silver", LATER_COLUMNS)
    for table in GOLD_TABLES:
        write_as_before(lake, table, LATER_FIGURES)
    return lake


@pytest.mark.parametrize("is_compacted", [False, True])
def test_a_warehouse_of_before_goes_on(old: Lake, *, is_compacted: bool) -> None:
    """UL-6: also where a compaction wrote rows of before into one file with others."""
    sealed = None if is_compacted else seal(old.warehouse, DAY, DAY)
    old.take(
        a_body("r-1", cost="2.0"),
        a_body("r-2", cost="9.0"),
        a_body("r-3", cost="0.5", input_tokens=3),
        an_adjustment(cost="-0.25"),
    )
    old.take(a_body("r-4", cost="100.0", correlated=False), came=LATER)
    if is_compacted:
        compact(old.warehouse)
    assert (len(old.rows("duplicates")), len(old.rows("conflicts"))) == (1, 1)
    assert bill_of(old) == Decimal("3.25")
    assert not [
        check for check in reconcile(IN_PROCESS, old.warehouse).checks if check.is_right is False
    ]
    assert sealed is None or is_unchanged(old.warehouse, sealed)


def test_a_column_is_not_compared_in_a_group_that_lacks_it_in_a_row(lake: Lake) -> None:
    """UL-9: a compaction wrote rows of before into one file with others, where they have null."""
    lake.take(a_body("r-1", input_tokens=7))
    for table in GOLD_TABLES:
        write_as_before(lake, table, LATER_FIGURES)
    lake.take(a_body("r-2", input_tokens=3))
    assert compact(lake.warehouse).files_after
    assert is_right(lake)


def test_a_backfill_gives_a_day_of_before_its_new_columns(old: Lake) -> None:
    work = Backfill(old.spark, old.warehouse, DAY, DAY)
    found = work.compare()
    assert (found.events_missing, found.events_too_many, found.cost_now) == (0, 0, found.cost_then)
    work.apply()
    assert {row["uncorrelated_count"] for row in old.rows("gold_day")} == {0}
    assert Backfill(old.spark, old.warehouse, DAY, DAY).compare().is_none
    assert is_right(old)
