"""What is known is found, whatever the runs are: against the plain rule, over histories of files that come and go."""

from collections.abc import Sequence
from pathlib import Path
from uuid import uuid4

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from router.lake.identities import IdentityIndex, identity_index
from router.lake.identities.run_store import HOME
from router.lake.tables.dedupe import KEY_SCHEMA
from router.lake.warehouse import DataFile, Warehouse

long = st.integers(-(1 << 63), (1 << 63) - 1)


def a_file(warehouse: Warehouse, *ids: int, first: int = 1) -> DataFile:
    """A file of silver, as far as it is read here: one event each, half of its identity told, the other half one less."""
    path = f"silver/{uuid4().hex}/day=2026-11-20/part-0.parquet"
    target = Path(warehouse.storage.resolve(path))
    target.parent.mkdir(parents=True)
    rows = [
        dict(zip(KEY_SCHEMA.names, (seq, high, high - 1 if high > -(1 << 63) else 0, 7), strict=True))
        for seq, high in enumerate(ids, first)
    ]
    pq.write_table(pa.Table.from_pylist(rows, schema=KEY_SCHEMA), target)
    return DataFile(path=path, rows=len(ids), bytes=0, day="2026-11-20")


def found(identities: IdentityIndex, silver: Sequence[DataFile], *ids: int) -> list[tuple[int, int]]:
    rows = identities.find_known(silver, pa.chunked_array([pa.array(ids, pa.int64())]))
    assert rows.schema == KEY_SCHEMA
    return sorted(zip(rows["id_high"].to_pylist(), rows["seq"].to_pylist(), strict=True))


@pytest.fixture
def warehouse(tmp_path: Path) -> Warehouse:
    return Warehouse(str(tmp_path))


def test_events_of_all_files_are_found_and_no_others(warehouse: Warehouse) -> None:
    silver = [a_file(warehouse, 5, -3), a_file(warehouse, 9, first=10)]
    assert found(IdentityIndex(warehouse), silver, 9, 4, -3) == [(-3, 2), (9, 10)]


def test_two_identities_that_share_a_half_are_both_found(warehouse: Warehouse) -> None:
    silver = [a_file(warehouse, 5, 5, 6), a_file(warehouse, 5, first=10)]
    assert found(IdentityIndex(warehouse), silver, 5) == [(5, 1), (5, 2), (5, 10)]


def test_an_identity_that_comes_twice_is_found_once(warehouse: Warehouse) -> None:
    assert found(IdentityIndex(warehouse), [a_file(warehouse, 5)], 5, 5) == [(5, 1)]


def test_nothing_is_known_where_there_is_no_silver(warehouse: Warehouse) -> None:
    assert found(IdentityIndex(warehouse), [], 5) == []


def test_what_a_compaction_replaced_is_found_where_it_is_now(warehouse: Warehouse) -> None:
    identities, old, other = IdentityIndex(warehouse), a_file(warehouse, 5), a_file(warehouse, 6, first=10)
    found(identities, [old, other], 5)
    assert found(identities, [a_file(warehouse, 5, 6, first=20)], 5, 6) == [(5, 20), (6, 21)]


def test_a_file_that_silver_has_no_more_is_not_known(warehouse: Warehouse) -> None:
    identities, gone, stays = IdentityIndex(warehouse), a_file(warehouse, 5), a_file(warehouse, 6)
    found(identities, [gone, stays], 5)
    assert found(identities, [stays], 5, 6) == [(6, 1)]


def test_eight_runs_of_a_size_become_one_and_the_next_process_reads_that_one_alone(warehouse: Warehouse) -> None:
    identities, silver = IdentityIndex(warehouse), list[DataFile]()
    for number in range(identity_index.MERGE_AT):
        silver.append(a_file(warehouse, number))
        found(identities, silver, 0)
    assert len(list(Path(warehouse.storage.resolve(HOME)).iterdir())) == 1
    for file in silver:
        Path(warehouse.storage.resolve(file.path)).unlink()  # reading silver again would fail
    assert found(IdentityIndex(warehouse), silver, *range(identity_index.MERGE_AT)) == [
        (number, 1) for number in range(identity_index.MERGE_AT)
    ]


def test_a_large_run_is_left_alone(warehouse: Warehouse, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(identity_index, "MAX_MERGED_KEYS", 2)
    silver = [a_file(warehouse, number, number + 100) for number in range(identity_index.MERGE_AT)]
    assert found(IdentityIndex(warehouse), silver, 3, 103) == [(3, 1), (103, 2)]
    assert len(list(Path(warehouse.storage.resolve(HOME)).iterdir())) == identity_index.MERGE_AT


@pytest.mark.parametrize("damage", [lambda data: data[: len(data) // 2], lambda data: b"", lambda data: b"ARROW1 and no more of it"])
def test_a_run_that_cannot_be_read_is_made_again(warehouse: Warehouse, damage: object) -> None:
    silver = [a_file(warehouse, 5)]
    found(IdentityIndex(warehouse), silver, 5)
    (path,) = Path(warehouse.storage.resolve(HOME)).iterdir()
    path.write_bytes(damage(path.read_bytes()))  # type: ignore[operator]
    assert found(IdentityIndex(warehouse), silver, 5) == [(5, 1)]
    assert not path.exists()


def test_a_death_between_a_merged_run_and_the_removal_of_its_parts_leaves_each_event_known_once(
    warehouse: Warehouse, monkeypatch: pytest.MonkeyPatch
) -> None:
    silver = [a_file(warehouse, number) for number in range(identity_index.MERGE_AT)]
    identities = IdentityIndex(warehouse)
    with monkeypatch.context() as dying:
        dying.setattr("router.lake.identities.run_store.RunStore.remove", lambda *_: None)
        for number in range(len(silver)):
            found(identities, silver[: number + 1], 0)
    assert len(list(Path(warehouse.storage.resolve(HOME)).iterdir())) == identity_index.MERGE_AT + 1
    assert found(IdentityIndex(warehouse), silver, 0, 1) == [(0, 1), (1, 1)]


def test_two_processes_that_keep_runs_of_one_warehouse_do_not_disturb_each_other(warehouse: Warehouse) -> None:
    silver = [a_file(warehouse, number) for number in range(20)]
    one, other = IdentityIndex(warehouse), IdentityIndex(warehouse)
    for number in range(len(silver)):
        some = silver[: number + 1]
        assert found(one, some, number) == [(number, 1)]
        assert found(other, some[::2], 0) == [(0, 1)]
    assert found(IdentityIndex(warehouse), silver, 0, 19) == [(0, 1), (19, 1)]


@settings(max_examples=30, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(st.lists(st.tuples(st.lists(long | st.integers(-3, 3), min_size=1, max_size=9), st.booleans(), st.booleans()), max_size=12))
def test_any_history_of_files_gives_what_reading_them_all_would(
    tmp_path_factory: pytest.TempPathFactory, history: list[tuple[list[int], bool, bool]]
) -> None:
    warehouse = Warehouse(str(tmp_path_factory.mktemp("lake")))
    identities, silver, stands = IdentityIndex(warehouse), list[DataFile](), dict[str, list[tuple[int, int]]]()
    for ids, is_replaced, is_restarted in history:
        if is_replaced and silver:
            del stands[silver.pop(0).path]
        silver.append(a_file(warehouse, *ids))
        stands[silver[-1].path] = list(enumerate(ids, 1))
        identities = IdentityIndex(warehouse) if is_restarted else identities
        wanted = {*ids, *range(-3, 4)}
        there = sorted((high, seq) for keys in stands.values() for seq, high in keys if high in wanted)
        assert found(identities, silver, *wanted) == there
