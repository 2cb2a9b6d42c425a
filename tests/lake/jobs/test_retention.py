"""Old event days go from bronze and silver, sealed ones first, and what is left still agrees."""

from contextlib import suppress
from datetime import timedelta
from pathlib import Path

import pyarrow.parquet as pq
import pytest

from router.core.errors import Conflict, Misconfigured
from router.lake.jobs import erase
from router.lake.jobs.backfill import Backfill
from router.lake.jobs.ingest import _complete_last_batch
from router.lake.jobs.maintenance import vacuum
from router.lake.jobs.retention import drop_old_days
from router.lake.jobs.seal import is_unchanged, seal
from router.lake.reconcile import reconcile
from tests.support.lake_crashes import die, happens_at
from tests.support.lake_jobs import FACTS, NOON, Lake, a_body, messages

DAY = NOON.date()
NEXT, THIRD = DAY + timedelta(days=1), DAY + timedelta(days=2)


@pytest.fixture
def days(lake: Lake) -> Lake:
    """Three days, the first one sealed; a correction of it came on the second; duplicates and what
    is no event.
    """
    later = NOON + timedelta(days=1)
    lake.take(a_body("r-1", cost="1.0"), a_body("r-1", cost="1.0"), b"{}", a_body("r-2", at=later))
    seal(lake.warehouse, DAY, DAY)
    lake.take(
        a_body("r-3", cost="4.0"),
        a_body("r-2", at=later),
        a_body("r-4", at=NOON + timedelta(days=2)),
        came=later,
    )
    return lake


def differing(lake: Lake) -> list[str]:
    return [
        check.name
        for check in reconcile(lake.spark, lake.warehouse).checks
        if check.is_right is False
    ]


def test_sealed_days_go_and_the_others_are_named(days: Lake) -> None:
    """UL-38."""
    before = days.rows("gold_day")
    done = drop_old_days(days.warehouse, THIRD)
    assert (done.days, done.unsealed, done.messages) == ([str(DAY)], [str(NEXT)], 4)
    assert [row["request_id"] for row in days.rows("silver")] == ["r-2", "r-4"]
    assert days.rows("gold_day") == before
    assert not differing(days)
    assert all(is_unchanged(days.warehouse, one) for one in days.warehouse.seals())
    assert Backfill(days.spark, days.warehouse, NEXT, NEXT).compare().is_none


def test_unsealed_days_go_if_that_is_asked_for(days: Lake) -> None:
    done = drop_old_days(days.warehouse, THIRD, has_unsealed=True)
    assert (done.days, done.unsealed) == ([str(DAY), str(NEXT)], [])
    assert [row["request_id"] for row in days.rows("silver")] == ["r-4"]
    assert not differing(days)
    with pytest.raises(Misconfigured, match="only its sums"):
        Backfill(days.spark, days.warehouse, NEXT, NEXT)


def test_the_bytes_go_and_a_later_batch_is_taken(days: Lake) -> None:
    drop_old_days(days.warehouse, THIRD, has_unsealed=True)
    vacuum(days.warehouse, older_than=timedelta(0))
    left = [
        path
        for path in Path(days.home).rglob("*.parquet")
        if path.parts[-2].startswith(f"day={DAY}") and "gold" not in str(path)
    ]
    assert not left
    assert all(
        pq.ParquetFile(path).metadata.num_rows
        for path in Path(days.home).glob("silver/*/*/*.parquet")
    )
    days.take(a_body("r-5", at=NOON + timedelta(days=2)), came=NOON + timedelta(days=2))
    assert [row["request_id"] for row in days.rows("silver")] == ["r-4", "r-5"]
    assert not differing(days)


def test_a_retention_that_ended_before_its_seals_is_completed_by_the_next_one(
    days: Lake, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It found no old day any more, so the seals kept the dropped events on the disk."""

    def fail(_: object) -> None:
        raise Conflict("a batch lacks its cut")

    with monkeypatch.context() as patched:
        patched.setattr("router.lake.jobs.retention.append_whole_cut", fail)
        with pytest.raises(Conflict):
            drop_old_days(days.warehouse, THIRD)
    done = drop_old_days(days.warehouse, THIRD)
    assert (done.days, done.resealed) == ([], 1)
    vacuum(days.warehouse, older_than=timedelta(0))
    left = [
        path
        for path in Path(days.home).rglob("*.parquet")
        if path.parts[-2].startswith(f"day={DAY}") and "gold" not in str(path)
    ]
    assert not left
    assert all(is_unchanged(days.warehouse, one) for one in days.warehouse.seals())
    assert drop_old_days(days.warehouse, THIRD).resealed == 0


def test_a_dry_run_of_the_retention_changes_nothing(days: Lake) -> None:
    head, files = days.warehouse.head(), sorted(Path(days.home).rglob("*"))
    assert drop_old_days(days.warehouse, THIRD, dry_run=True).days == [str(DAY)]
    assert (days.warehouse.head(), sorted(Path(days.home).rglob("*"))) == (head, files)
    assert drop_old_days(days.warehouse, DAY).days == []


@pytest.mark.parametrize("point", ["lake_after_bronze", "lake_after_silver", "lake_after_gold"])
def test_messages_of_a_batch_whose_ingest_died_stay_until_it_is_completed(
    days: Lake, monkeypatch: pytest.MonkeyPatch, point: str
) -> None:
    """UL-38."""
    late = messages([a_body("r-9", cost="8.0")], first=8, came=NOON + timedelta(days=2))
    with monkeypatch.context() as patched:
        happens_at(patched, point, die)
        with pytest.raises(MemoryError):
            days.batch(late)
    monkeypatch.setattr(erase, "PATIENCE_S", 0.1)
    with suppress(Conflict):
        drop_old_days(days.warehouse, THIRD)
    after = Lake(days.spark, days.home)
    _complete_last_batch(after.warehouse, FACTS)
    after.batch(late)
    assert not differing(after)
    drop_old_days(after.warehouse, THIRD)
    assert str(DAY) not in {
        file.day for table in ("bronze", "silver") for file in after.warehouse.files(table)
    }
    assert not differing(after)
    assert (
        sum(row["cost"] for row in after.rows("gold_day") if row["corrects_window"] is not None)
        == 4 + 8
    )
