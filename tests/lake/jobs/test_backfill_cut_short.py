"""A backfill that a seal comes before, or that dies on its way."""

from datetime import timedelta

import pytest

from router.core.errors import Conflict
from router.lake.jobs import maintenance
from router.lake.jobs import seal as sealing
from router.lake.jobs.backfill import Backfill
from router.lake.jobs.seal import is_unchanged, seal
from router.lake.warehouse import Cut, DataFile, Warehouse
from router.lake.warehouse.delta import LakeTable
from tests.support.lake_commits import replace_files
from tests.support.lake_jobs import NOON, Lake, a_body

DAY = NOON.date()
MADE_AGAIN = ("silver", "gold_minute", "gold_hour", "gold_day")


@pytest.fixture
def broken(lake: Lake) -> Lake:
    """A lake of two batches; its silver and gold lack the second one's files. Another day is whole."""
    lake.take(a_body("r-1", cost="1.0"))
    lake.take(a_body("r-2", cost="2.0"))
    for table in MADE_AGAIN:
        replace_files(lake.warehouse, table, lake.warehouse.files(table)[1:])
    lake.take(a_body("r-3", at=NOON + timedelta(days=1)))
    return lake


def open_backfill(lake: Lake) -> Backfill:
    return Backfill(lake.spark, Warehouse(str(lake.home)), DAY, DAY)


def list_now(lake: Lake) -> dict[str, list[DataFile]]:
    """The files of all tables, whether a cut shows them or not."""
    return {name: table.list_files() for name, table in Warehouse(str(lake.home)).tables.items()}


def test_a_seal_that_came_after_it_looked_leaves_every_table_as_it_was(broken: Lake) -> None:
    """UL-10, UL-11."""
    work = open_backfill(broken)
    assert not work.compare().is_none
    sealed = seal(broken.warehouse, DAY, DAY)
    before = list_now(broken)
    with pytest.raises(Conflict, match="start again"):
        work.apply()
    assert list_now(broken) == before
    assert is_unchanged(broken.warehouse, sealed)


@pytest.mark.parametrize("table", MADE_AGAIN)
def test_what_dies_between_two_tables_is_mended_by_the_same_again(
    broken: Lake, monkeypatch: pytest.MonkeyPatch, table: str
) -> None:
    """UL-11."""
    die_before(broken, monkeypatch, table)
    again = open_backfill(broken)
    assert not again.compare().is_none
    again.apply()
    assert_is_whole(broken)


def test_what_dies_before_its_cut_is_shown_by_the_same_again(
    broken: Lake, monkeypatch: pytest.MonkeyPatch
) -> None:
    """UL-11."""

    def die(*_: object) -> Cut | None:
        raise MemoryError

    with monkeypatch.context() as patched:
        patched.setattr(Warehouse, "append_cut", die)
        with pytest.raises(MemoryError):
            open_backfill(broken).apply()
    again = open_backfill(broken)
    assert again.compare().is_none
    again.show()
    assert_is_whole(broken)


def test_there_is_no_cut_of_what_a_cut_shows_already(broken: Lake) -> None:
    open_backfill(broken).apply()
    head = broken.warehouse.head()
    open_backfill(broken).show()
    assert broken.warehouse.head() == head


def test_a_seal_waits_for_a_backfill_that_died_though_it_left_as_many_rows(
    broken: Lake, monkeypatch: pytest.MonkeyPatch
) -> None:
    """UL-10: the cut has other sums than the table of days, and equally many."""
    die_before(broken, monkeypatch, "silver")
    monkeypatch.setattr(sealing, "PATIENCE_S", 0.1)
    with pytest.raises(Conflict, match="or that backfill again"):
        seal(broken.warehouse, DAY, DAY)
    open_backfill(broken).apply()
    assert_is_whole(broken)


def test_a_compaction_that_died_before_its_cut_stops_no_seal(
    broken: Lake, monkeypatch: pytest.MonkeyPatch
) -> None:
    open_backfill(broken).apply()
    broken.take(a_body("r-4", at=NOON + timedelta(days=1)))
    with monkeypatch.context() as patched:
        patched.setattr(maintenance, "_append_cut", lambda _: None)
        assert maintenance.compact(broken.warehouse).files_after
    monkeypatch.setattr(sealing, "PATIENCE_S", 0.1)
    assert is_unchanged(broken.warehouse, seal(broken.warehouse, DAY, DAY))


def die_before(lake: Lake, monkeypatch: pytest.MonkeyPatch, table: str) -> None:
    """A backfill dies before it replaces the files of this table."""
    replace = LakeTable.replace

    def die_or_replace(
        self: LakeTable, old: list[DataFile], new: list[DataFile], *, after: int
    ) -> None:
        if self.name == table:
            raise MemoryError
        replace(self, old, new, after=after)

    with monkeypatch.context() as patched:
        patched.setattr(LakeTable, "replace", die_or_replace)
        with pytest.raises(MemoryError):
            open_backfill(lake).apply()


def assert_is_whole(lake: Lake) -> None:
    for table in MADE_AGAIN:
        assert sum(row["cost"] for row in lake.rows(table)) == 3.5, table
    assert open_backfill(lake).compare().is_none
    assert is_unchanged(lake.warehouse, seal(lake.warehouse, DAY, DAY))
