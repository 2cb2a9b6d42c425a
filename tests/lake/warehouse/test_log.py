"""Which files count."""

import os
import time
from datetime import timedelta
from pathlib import Path

import pyarrow as pa
import pytest
from deltalake import Transaction

from router.core.errors import Conflict, Misconfigured
from router.lake.jobs.maintenance import vacuum
from router.lake.tables.arrow import ARROW
from router.lake.warehouse import Cut, DataFile, Progress, Seal, Warehouse
from router.lake.warehouse.delta import LakeTable
from router.lake.warehouse.log import MAX_READ, Cuts
from router.lake.warehouse.seals import name_mark
from router.lake.warehouse.storage import Storage
from tests.support.lake_commits import add_files, replace_files


def a_file(path: str, seq: int = 1) -> DataFile:
    return DataFile(
        path=f"silver/{path}",
        rows=1,
        bytes=10,
        min_seq=seq,
        max_seq=seq,
        day="2026-11-20",
        bucket=0,
    )


def write(warehouse: Warehouse, *paths: str) -> None:
    """Files that can be committed: what is in them is not read here."""
    for path in paths:
        file = Path(warehouse.location) / "silver" / path
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_bytes(b"")


def add(warehouse: Warehouse, *paths: str) -> Cut:
    write(warehouse, *paths)
    last = warehouse.head() + 1
    progress = Progress(stream="S", created="2026-11-01T00:00:00Z", first=last, last=last)
    return add_files(warehouse, {"silver": [a_file(path, last) for path in paths]}, progress)


def names(warehouse: Warehouse, as_of_cut: int | None = None) -> list[str]:
    return sorted(
        file.path.removeprefix("silver/") for file in warehouse.files("silver", as_of_cut)
    )


def test_a_warehouse_that_was_never_written_to_is_empty(tmp_path: Path) -> None:
    warehouse = Warehouse(str(tmp_path / "none"))
    assert (
        warehouse.head(),
        warehouse.cut(),
        warehouse.files("silver"),
        warehouse.last_progress(),
        warehouse.seals(),
    ) == (0, None, [], None, [])
    assert not (tmp_path / "none").exists()


def test_the_location_is_absolute_for_executors_run_elsewhere(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    assert Warehouse("usage").location == str(tmp_path / "usage")


def test_a_table_is_what_its_commits_added_and_did_not_remove(tmp_path: Path) -> None:
    warehouse = Warehouse(str(tmp_path))
    add(warehouse, "a", "b")
    write(warehouse, "c")
    replace_files(warehouse, "silver", [a_file("a")], [a_file("c")])
    assert names(Warehouse(str(tmp_path))) == ["b", "c"]


def test_a_table_as_of_a_cut_stays_as_it_was(tmp_path: Path) -> None:
    """UL-10."""
    warehouse = Warehouse(str(tmp_path))
    add(warehouse, "a")
    write(warehouse, "b")
    replace_files(warehouse, "silver", [a_file("a")], [a_file("b")])
    assert (names(warehouse, as_of_cut=1), names(warehouse)) == (["a"], ["b"])


def test_a_description_of_a_file_comes_back_as_it_was_committed(tmp_path: Path) -> None:
    warehouse = Warehouse(str(tmp_path))
    add(warehouse, "a")
    assert warehouse.files("silver") == [a_file("a")]


def test_what_is_committed_without_a_cut_is_not_read(tmp_path: Path) -> None:
    """UL-3."""
    warehouse = Warehouse(str(tmp_path))
    add(warehouse, "a")
    write(warehouse, "b")
    warehouse.tables["silver"].commit([a_file("b", 2)], lambda _: [])
    assert names(warehouse) == ["a"]


def test_of_two_writers_on_the_same_version_one_has_a_conflict(tmp_path: Path) -> None:
    """UL-3."""
    one, other = Warehouse(str(tmp_path)), Warehouse(str(tmp_path))
    add(one, "a")
    table = other.tables["silver"].load()
    assert table is not None
    after = table.version()
    add(one, "b")
    with pytest.raises(Conflict):
        other.tables["silver"].replace([a_file("a")], [], after=after)
    assert names(one) == ["a", "b"]


def test_a_reader_sees_what_another_process_committed_meanwhile(tmp_path: Path) -> None:
    reader, writer = Warehouse(str(tmp_path)), Warehouse(str(tmp_path))
    assert reader.head() == 0
    add(writer, "a")
    assert (reader.head(), names(reader)) == (1, ["a"])


def test_cuts_of_two_writers_are_numbered_one_after_the_other(tmp_path: Path) -> None:
    one, other = Warehouse(str(tmp_path)), Warehouse(str(tmp_path))
    cuts = [
        warehouse.append_cut("compact", {"silver": version})
        for version, warehouse in enumerate((one, other, one, one, other))
    ]
    assert [cut.number for cut in cuts if cut is not None] == [1, 2, 3, 4, 5]


def test_no_table_goes_back_from_a_cut_to_the_next(tmp_path: Path) -> None:
    """UL-3."""
    one, other = Warehouse(str(tmp_path)), Warehouse(str(tmp_path))
    one.append_cut("ingest", {"silver": 3, "bronze": 3})
    assert other.append_cut("ingest", {"silver": 2, "bronze": 2}) is None
    later = other.append_cut("compact", {"silver": 2, "bronze": 5, "gold_day": 1})
    assert later is not None
    assert (later.number, later.versions) == (2, {"silver": 3, "bronze": 5, "gold_day": 1})


def test_a_warehouse_of_the_form_before_is_refused_with_what_to_do(tmp_path: Path) -> None:
    (tmp_path / "_commits").mkdir()
    with pytest.raises(Misconfigured, match=r"older form.*makes it anew"):
        Warehouse(str(tmp_path)).refuse_old_form()


def test_a_place_that_no_filesystem_knows_is_told_by_the_settings_name() -> None:
    with pytest.raises(Misconfigured, match="warehouse"):
        Warehouse("nowhere://bucket/path")


def test_a_seal_counts_from_its_mark_on(tmp_path: Path) -> None:
    from deltalake import Transaction

    warehouse = Warehouse(str(tmp_path))
    add(warehouse, "a")
    seal = Seal(
        id="s-1",
        first_day="2026-11-01",
        last_day="2026-11-30",
        sequence=7,
        cut=1,
        rows=0,
        hash="e3",
    )
    warehouse.write_seal(seal)
    assert warehouse.seals() == []
    warehouse.tables["gold_day"].commit([], lambda _: [Transaction(name_mark(seal), 1)])
    assert Warehouse(str(tmp_path)).seals() == [seal]


def test_a_warehouse_whose_minutes_have_tenants_is_refused_and_not_misread(tmp_path: Path) -> None:
    older = LakeTable(
        Storage(str(tmp_path)), "gold_minute", pa.schema([*ARROW["gold_day"], ("day", pa.string())])
    )
    older.commit([], lambda _: [Transaction("before", 1)])
    with pytest.raises(
        Misconfigured,
        match=r"gold_minute has an older form, sums by tenant_id, provider_id, .*makes it anew",
    ):
        Warehouse(str(tmp_path)).refuse_old_form()


def test_a_warehouse_whose_days_have_no_model_is_refused_and_not_misread(tmp_path: Path) -> None:
    """UL-41."""
    columns = [field for field in ARROW["gold_day"] if field.name != "model"]
    older = LakeTable(
        Storage(str(tmp_path)), "gold_day", pa.schema([*columns, ("day", pa.string())])
    )
    older.commit([], lambda _: [Transaction("before", 1)])
    with pytest.raises(
        Misconfigured,
        match=(
            r"gold_day has an older form, sums by .*, status, not .*, status, model: .*makes "
            r"it anew"
        ),
    ):
        Warehouse(str(tmp_path)).refuse_old_form()


def test_a_writer_that_runs_for_ever_keeps_few_cuts(tmp_path: Path) -> None:
    """An ingest reads the newest cut for each micro-batch: 43 200 a day."""
    cuts = Cuts(Storage(str(tmp_path)))
    for version in range(MAX_READ + 3):
        cuts.append("ingest", {"silver": version + 1})
        cuts.read(cuts.head())
    assert len(cuts._read) == MAX_READ
    assert cuts.read(1) is not None


def test_files_that_a_vacuum_deleted_before_they_were_committed_are_not_committed(
    tmp_path: Path,
) -> None:
    """A job that took hours, or stood still, named files that were gone: every later read of the
    table failed, and rows were lost.
    """
    warehouse = Warehouse(str(tmp_path))
    add(warehouse, "a")
    write(warehouse, "slow")
    long_ago = time.time() - 7_200
    os.utime(tmp_path / "silver" / "slow", (long_ago, long_ago))
    vacuum(warehouse, older_than=timedelta(hours=1))
    for commit in (
        lambda: warehouse.tables["silver"].commit([a_file("slow", 2)], lambda _: []),
        lambda: replace_files(warehouse, "silver", [a_file("a")], [a_file("slow", 2)]),
    ):
        with pytest.raises(Conflict, match="silver/slow"):
            commit()
    assert names(Warehouse(str(tmp_path))) == ["a"]
