"""Days made again from bronze."""

from datetime import timedelta

import pytest

from router.core.errors import Misconfigured
from router.lake.jobs.backfill import Backfill
from router.lake.jobs.seal import seal
from tests.support.lake_commits import replace_files
from tests.support.lake_jobs import NOON, Lake, a_body

DAY = NOON.date()


def test_on_unchanged_data_there_is_no_difference(lake: Lake) -> None:
    """UL-11."""
    lake.take(a_body("r-1"), a_body("r-2", at=NOON - timedelta(hours=1)), b"bad")
    lake.take(a_body("r-1"), a_body("r-3", at=NOON + timedelta(days=1)))
    assert Backfill(lake.spark, lake.warehouse, DAY, DAY + timedelta(days=1)).compare().is_none


def test_files_that_went_missing_from_the_tables_are_made_again_with_their_sums(lake: Lake) -> None:
    """UL-11."""
    lake.take(a_body("r-1", cost="1.25"))
    lake.take(a_body("r-2", cost="2.0"))
    for table in ("silver", "gold_day"):
        replace_files(lake.warehouse, table, lake.warehouse.files(table)[:1])
    work = Backfill(lake.spark, lake.warehouse, DAY, DAY)
    found = work.compare()
    assert (found.events_missing, found.events_too_many, found.cost_then - found.cost_now) == (
        1,
        0,
        1.25,
    )
    work.apply()
    assert (
        sum(row["cost"] for row in lake.rows("gold_day"))
        == sum(row["cost"] for row in lake.rows("silver"))
        == 3.25
    )
    assert Backfill(lake.spark, lake.warehouse, DAY, DAY).compare().is_none


def test_a_day_is_made_again_from_its_own_files(lake: Lake) -> None:
    """UL-11: what it costs does not grow with the history."""
    lake.take(
        a_body("r-1"),
        a_body("r-2", at=NOON - timedelta(days=1)),
        b"bad",
        came=NOON - timedelta(days=1),
    )
    lake.take(a_body("r-1"), a_body("r-2"), a_body("r-3"))  # two that the day before has
    for table in ("bronze", "quarantine", "silver", "gold_minute", "gold_hour", "gold_day"):
        for file in (lake.home / table / f"day={DAY - timedelta(days=1)}").rglob("*.parquet"):
            file.unlink()
    assert Backfill(lake.spark, lake.warehouse, DAY, DAY).compare().is_none


def test_what_was_counted_in_two_batches_of_a_day_is_found(lake: Lake) -> None:
    lake.take(a_body("r-1", cost="1.0"))
    lake.take(a_body("r-1", cost="1.0"))
    (duplicates,) = lake.warehouse.files("duplicates")
    replace_files(lake.warehouse, "duplicates", [duplicates])
    assert Backfill(lake.spark, lake.warehouse, DAY, DAY).compare().is_none


def test_sealed_days_are_left_alone(lake: Lake) -> None:
    lake.take(a_body("r-1"))
    seal(lake.warehouse, DAY, DAY)
    with pytest.raises(Misconfigured, match="sealed"):
        Backfill(lake.spark, lake.warehouse, DAY, DAY)
