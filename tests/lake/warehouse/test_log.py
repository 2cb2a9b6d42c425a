"""Which files count."""

from pathlib import Path

import pytest

from router.core.errors import Conflict, Misconfigured, Poison
from router.lake.warehouse import Commit, DataFile, Seal, Warehouse


def a_file(path: str, day: str = "2026-11-20") -> DataFile:
    return DataFile(path=path, rows=1, bytes=10, min_seq=1, max_seq=1, day=day)


def add(warehouse: Warehouse, *paths: str, remove: tuple[str, ...] = ()) -> Commit:
    files = [a_file(path) for path in paths]
    return warehouse.append(
        lambda number, at: Commit(
            commit=number, kind="ingest", at=at, first=1, last=number, add={"silver": files}, remove={"silver": list(remove)}
        ),
        after=warehouse.head(),
    )


def test_a_warehouse_that_was_never_written_to_is_empty(tmp_path: Path) -> None:
    warehouse = Warehouse(str(tmp_path / "none"))
    assert (warehouse.head(), warehouse.files("silver"), warehouse.last_ingest()) == (0, [], None)


def test_the_location_is_absolute_for_executors_run_elsewhere(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    assert Warehouse("usage").location == str(tmp_path / "usage")


def test_a_table_is_what_its_commits_added_and_did_not_remove(tmp_path: Path) -> None:
    warehouse = Warehouse(str(tmp_path))
    add(warehouse, "a", "b")
    add(warehouse, "c", remove=("a",))
    assert [file.path for file in Warehouse(str(tmp_path)).files("silver")] == ["b", "c"]


def test_a_table_as_of_a_commit_stays_as_it_was(tmp_path: Path) -> None:
    """UL-10."""
    warehouse = Warehouse(str(tmp_path))
    add(warehouse, "a")
    add(warehouse, "b", remove=("a",))
    assert [file.path for file in warehouse.files("silver", as_of_commit=1)] == ["a"]


def test_of_two_writers_on_the_same_state_one_has_a_conflict(tmp_path: Path) -> None:
    """UL-3."""
    one, other = Warehouse(str(tmp_path)), Warehouse(str(tmp_path))
    head = other.head()
    add(one, "a")
    with pytest.raises(Conflict):
        other.append(lambda number, at: Commit(commit=number, kind="ingest", at=at), after=head)
    assert [commit.commit for commit in other.commits()] == [1]


def test_a_reader_sees_what_another_process_committed_meanwhile(tmp_path: Path) -> None:
    reader, writer = Warehouse(str(tmp_path)), Warehouse(str(tmp_path))
    assert reader.head() == 0
    add(writer, "a")
    assert reader.head() == 1


def test_a_commit_that_was_being_written_when_its_writer_died_is_none(tmp_path: Path) -> None:
    warehouse = Warehouse(str(tmp_path))
    add(warehouse, "a")
    (tmp_path / "_commits" / ".draft-x").write_bytes(b'{"commit": 2')
    assert Warehouse(str(tmp_path)).head() == 1


def test_a_log_that_is_not_ours_is_refused(tmp_path: Path) -> None:
    (tmp_path / "_commits").mkdir()
    (tmp_path / "_commits" / f"{1:020d}.json").write_bytes(b"[]")
    with pytest.raises(Poison):
        Warehouse(str(tmp_path)).head()


def test_a_place_that_no_filesystem_knows_is_told_by_the_settings_name() -> None:
    with pytest.raises(Misconfigured, match="warehouse"):
        Warehouse("nowhere://bucket/path")


def test_seals_are_found_again(tmp_path: Path) -> None:
    warehouse = Warehouse(str(tmp_path))
    seal = Seal(first_day="2026-11-01", last_day="2026-11-30", sequence=7, commit=0, rows=0, hash="e3")
    warehouse.append(lambda number, at: Commit(commit=number, kind="seal", at=at, seals=seal), after=0)
    assert Warehouse(str(tmp_path)).seals() == [seal]
