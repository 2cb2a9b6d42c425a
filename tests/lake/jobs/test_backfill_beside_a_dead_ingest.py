"""A backfill beside a batch that its ingest left half done is refused: the next ingest would count
the batch twice.
"""

import pytest

from router.core.errors import Conflict
from router.lake.jobs.backfill import Backfill
from router.lake.jobs.ingest import _complete_last_batch
from router.lake.warehouse import Warehouse
from tests.support.lake_crashes import die, happens_at
from tests.support.lake_jobs import FACTS, NOON, Lake, a_body, messages

DAY = NOON.date()
SECOND = messages([a_body("r-2", cost="2.0")], first=2)


@pytest.fixture
def lake_of_one(lake: Lake) -> Lake:
    lake.take(a_body("r-1", cost="1.0"))
    return lake


def die_at(monkeypatch: pytest.MonkeyPatch, lake: Lake, point: str) -> None:
    """Take the second batch, and die at the point."""
    with monkeypatch.context() as patched:
        happens_at(patched, point, die)
        with pytest.raises(MemoryError):
            lake.batch(SECOND)


def apply(lake: Lake) -> None:
    Backfill(lake.spark, Warehouse(str(lake.home)), DAY, DAY).apply()


def ingest_again(lake: Lake) -> None:
    """The next ingest, as it starts: it completes gold, then takes what silver lacks."""
    next_one = Lake(lake.spark, lake.home)
    _complete_last_batch(next_one.warehouse, FACTS)
    next_one.batch(SECOND)


@pytest.mark.parametrize(
    "point", ["lake_after_bronze", "lake_after_conflicts", "lake_after_silver"]
)
def test_it_is_refused_until_an_ingest_has_completed_the_batch(
    lake_of_one: Lake, monkeypatch: pytest.MonkeyPatch, point: str
) -> None:
    """UL-3, UL-11."""
    die_at(monkeypatch, lake_of_one, point)
    with pytest.raises(Conflict, match="run `router usage ingest`, which completes it"):
        apply(lake_of_one)
    ingest_again(lake_of_one)
    apply(lake_of_one)
    for table in ("silver", "gold_minute", "gold_hour", "gold_day"):
        assert sum(row["cost"] for row in lake_of_one.rows(table)) == 3, table
    assert Backfill(lake_of_one.spark, lake_of_one.warehouse, DAY, DAY).compare().is_none


def test_it_is_applied_beside_a_batch_that_lacks_only_its_cut(
    lake_of_one: Lake, monkeypatch: pytest.MonkeyPatch
) -> None:
    """All tables have the batch, so that none is counted again."""
    die_at(monkeypatch, lake_of_one, "lake_after_gold")
    apply(lake_of_one)
    ingest_again(lake_of_one)
    assert sum(row["cost"] for row in lake_of_one.rows("gold_day")) == 3
    assert Backfill(lake_of_one.spark, lake_of_one.warehouse, DAY, DAY).compare().is_none


def test_a_batch_that_came_after_it_looked_is_not_replaced(lake_of_one: Lake) -> None:
    """UL-11: silver's own version tells."""
    work = Backfill(lake_of_one.spark, Warehouse(str(lake_of_one.home)), DAY, DAY)
    lake_of_one.batch(SECOND)
    with pytest.raises(Conflict, match="start again"):
        work.apply()
    assert sum(row["cost"] for row in lake_of_one.rows("gold_day")) == 3
