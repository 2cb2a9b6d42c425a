"""A tenant's rows go out of every table, and what is left still agrees."""

from collections.abc import Callable
from datetime import timedelta
from pathlib import Path
from typing import Any

import orjson
import pyarrow.parquet as pq
import pytest

from router.core.errors import Misconfigured
from router.lake.jobs.backfill import Backfill
from router.lake.jobs.commits import catch_up
from router.lake.jobs.erase import EraseResult, erase
from router.lake.jobs.maintenance import compact, vacuum
from router.lake.jobs.seal import is_unchanged, seal
from router.lake.reconcile import reconcile
from router.lake.tables.arrow import ARROW
from router.lake.warehouse import Warehouse
from router.lake.warehouse.delta import LakeTable
from tests.lake.without_jvm import IN_PROCESS
from tests.support.lake_crashes import die, happens_at
from tests.support.lake_jobs import NOON, Lake, a_body, messages

DAY = NOON.date()
TABLES = tuple(ARROW)


@pytest.fixture
def shared(lake: Lake) -> Lake:
    """Two tenants with events, duplicates, conflicts and messages that are no event, over two days."""
    for tenant in ("acme", "zed"):
        lake.take(
            a_body("r-1", tenant_id=tenant, cost="1.0"),
            a_body("r-2", tenant_id=tenant, cost="2.0", at=NOON + timedelta(days=1)),
            a_body("r-1", tenant_id=tenant, cost="1.0"),
            a_body("r-2", tenant_id=tenant, cost="9.0"),
            a_body("r-3", tenant_id=tenant, cost="-1"),
            a_body(tenant_id=tenant)[:-1],
            escape(a_body("r-4", tenant_id=tenant)),
        )
    return lake


def escape(body: bytes) -> bytes:
    """Write the tenant's first letter as JSON may."""
    event = orjson.loads(body)
    return body.replace(
        b'"' + event["tenant_id"].encode(),
        b'"\\u%04x' % ord(event["tenant_id"][0]) + event["tenant_id"][1:].encode(),
    )


def mentions(lake: Lake, tenant: str) -> list[str]:
    """The Parquet files on the disk that hold the tenant, whatever version names them."""
    found = []
    for path in Path(lake.home).rglob("*.parquet"):
        if "_delta_log" not in path.parts and tenant in repr(
            [read_body(row) for row in pq.ParquetFile(path).read().to_pylist()]
        ):
            found.append(str(path.relative_to(lake.home)))
    return found


def read_body(row: dict[str, Any]) -> object:
    try:
        return {**row, "data": orjson.loads(row["data"])} if "data" in row else row
    except orjson.JSONDecodeError:
        return row


def agrees(lake: Lake) -> bool:
    """Reconciliation and backfill find nothing, and catching up changes nothing."""
    warehouse = Warehouse(str(lake.home))
    progress = warehouse.last_progress()
    assert progress is not None
    head = warehouse.head()
    catch_up(warehouse, progress)
    checks = [
        check.name for check in reconcile(IN_PROCESS, warehouse).checks if check.is_right is False
    ]
    assert not checks
    assert Backfill(lake.spark, warehouse, DAY, DAY + timedelta(days=1)).compare().is_none
    return warehouse.head() == head


def test_every_row_of_the_tenant_goes_and_every_other_stays(shared: Lake) -> None:
    """UL-35."""
    others = {
        table: [row for row in shared.rows(table) if row["seq"] > 7]
        for table in TABLES
        if "seq" in ARROW[table].names
    }
    done = erase(shared.warehouse, "acme")
    rows = {
        "bronze": 7,
        "quarantine": 2,
        "silver": 3,
        "duplicates": 1,
        "conflicts": 1,
        "gold_minute": 4,
        "gold_hour": 2,
        "gold_day": 2,
    }
    assert done.rows == rows
    assert not any(done.left.values())
    assert {table: shared.rows(table) for table in others} == others
    assert {row["tenant_id"] for row in (*shared.rows("gold_day"), *shared.rows("gold_hour"))} == {
        "zed"
    }
    assert sum(row["count"] for row in shared.rows("gold_minute")) == 3
    assert agrees(shared)


def test_the_bytes_go_with_a_vacuum_and_seals_pin_none(shared: Lake) -> None:
    """UL-35."""
    sealed = seal(shared.warehouse, DAY, DAY)
    done = erase(shared.warehouse, "acme")
    assert done.resealed == 1
    assert done.gone_after is not None
    assert mentions(shared, "acme")  # a running batch may still read them
    vacuum(shared.warehouse, older_than=timedelta(0))
    assert not mentions(shared, "acme")
    (now,) = Warehouse(str(shared.home)).seals()
    assert is_unchanged(shared.warehouse, now)
    assert (now.id, now.earlier_hashes) == (sealed.id, (sealed.hash,))
    assert now.hash != sealed.hash


def test_a_file_that_a_running_batch_may_read_is_spared_for_an_hour(shared: Lake) -> None:
    before = {file.path for file in shared.warehouse.files("silver")}
    for path in Path(shared.home).rglob("*.parquet"):
        import os

        os.utime(path, (path.stat().st_atime - 7200, path.stat().st_mtime - 7200))
    erase(shared.warehouse, "acme")
    assert all((Path(shared.home) / path).exists() for path in before)


def test_a_seal_of_days_without_the_tenant_keeps_its_hash(lake: Lake) -> None:
    lake.take(a_body("r-1", tenant_id="zed"), a_body("r-2", at=NOON + timedelta(days=1)))
    sealed = seal(lake.warehouse, DAY, DAY)
    erase(lake.warehouse, "acme")
    (now,) = lake.warehouse.seals()
    assert (now.hash, now.earlier_hashes) == (sealed.hash, ())
    assert now.cut > sealed.cut


def test_a_correction_of_a_sealed_day_goes_as_well(lake: Lake) -> None:
    lake.take(a_body("r-1"), a_body("r-1", tenant_id="zed"))
    seal(lake.warehouse, DAY, DAY)
    lake.take(a_body("r-2"), a_body("r-2", tenant_id="zed"), came=NOON + timedelta(days=1))
    erase(lake.warehouse, "acme")
    assert [row["tenant_id"] for row in lake.rows("gold_day")] == ["zed", "zed"]
    assert [(row["count"], row["corrects_window"] is None) for row in lake.rows("gold_minute")] == [
        (1, True),
        (1, False),
    ]
    assert all(is_unchanged(lake.warehouse, one) for one in lake.warehouse.seals())


def test_only_days_before_the_given_one_go(shared: Lake) -> None:
    done = erase(shared.warehouse, "acme", before=DAY + timedelta(days=1))
    assert [row["request_id"] for row in shared.rows("silver") if row["tenant_id"] == "acme"] == [
        "r-2"
    ]
    assert [
        row["window_start"].date() for row in shared.rows("gold_day") if row["tenant_id"] == "acme"
    ] == [DAY + timedelta(days=1)]
    assert not any(done.left.values())
    assert agrees(shared)


def test_a_repetition_goes_with_the_event_that_counts(lake: Lake) -> None:
    """Its own time is later: it would count as missing otherwise."""
    lake.take(a_body("r-1"))
    lake.take(a_body("r-1", at=NOON + timedelta(days=2)), came=NOON + timedelta(days=2))
    erase(lake.warehouse, "acme", before=DAY + timedelta(days=1))
    assert not lake.rows("duplicates")
    assert not lake.rows("bronze")


def test_a_dry_run_counts_and_changes_nothing(shared: Lake) -> None:
    head, files = shared.warehouse.head(), sorted(Path(shared.home).rglob("*"))
    told = erase(shared.warehouse, "acme", dry_run=True)
    assert (shared.warehouse.head(), sorted(Path(shared.home).rglob("*"))) == (head, files)
    assert told.rows == erase(shared.warehouse, "acme").rows


def test_an_erasure_is_recorded_without_the_name(shared: Lake) -> None:
    erase(shared.warehouse, "acme")
    (removal,) = Warehouse(str(shared.home)).removals.list_all()
    assert removal.is_of("acme")
    assert not removal.is_of("zed")
    assert "acme" not in repr(removal)
    assert len(shared.warehouse.removals.read_spans()) == 7
    assert not any(erase(shared.warehouse, "unknown").rows.values())
    assert len(shared.warehouse.removals.list_all()) == 1


def test_a_tenant_of_the_same_name_may_come_again(shared: Lake) -> None:
    erase(shared.warehouse, "acme")
    shared.take(a_body("r-9"))
    assert [row["request_id"] for row in shared.rows("silver") if row["tenant_id"] == "acme"] == [
        "r-9"
    ]
    assert agrees(shared)


def test_a_batch_that_is_written_meanwhile_loses_nothing_and_brings_nothing_back(
    shared: Lake, monkeypatch: pytest.MonkeyPatch
) -> None:
    done: list[EraseResult] = []
    happens_at(
        monkeypatch,
        "lake_after_write",
        lambda: done.append(erase(Warehouse(str(shared.home)), "acme")),
    )
    # the first one repeats an erased event
    shared.take(a_body("r-1"), a_body("r-8"), a_body("r-8", tenant_id="zed"))
    new = [
        (row["tenant_id"], row["request_id"]) for row in shared.rows("silver") if row["seq"] > 14
    ]
    assert new == [("acme", "r-8"), ("zed", "r-8")]
    assert sum(row["count"] for row in shared.rows("gold_day")) == len(shared.rows("silver")) == 5
    assert agrees(shared)
    assert erase(shared.warehouse, "acme").rows["bronze"] == 2


@pytest.mark.parametrize("table", ["gold_day", "silver", "bronze"])
def test_a_batch_that_is_committed_while_a_table_is_written_again_stays(
    shared: Lake, other: Lake, monkeypatch: pytest.MonkeyPatch, table: str
) -> None:
    before_rewriting(
        monkeypatch,
        table,
        lambda: other.batch(messages([a_body("r-8"), a_body("r-8", tenant_id="zed")], first=15)),
    )
    done = erase(shared.warehouse, "acme")
    assert done.rows["bronze"] == 7
    assert {name: count for name, count in done.left.items() if count} == {
        "bronze": 1,
        "silver": 1,
        "gold_day": 1,
        "gold_hour": 1,
    }
    assert [row["request_id"] for row in shared.rows("silver") if row["tenant_id"] == "acme"] == [
        "r-8"
    ]
    assert agrees(shared)


@pytest.mark.parametrize("table", ["gold_day", "silver"])
def test_a_compaction_meanwhile_brings_nothing_back(
    shared: Lake, monkeypatch: pytest.MonkeyPatch, table: str
) -> None:
    before_rewriting(monkeypatch, table, lambda: compact(Warehouse(str(shared.home))))
    assert not any(erase(shared.warehouse, "acme").left.values())
    assert agrees(shared)


@pytest.mark.parametrize("table", ["duplicates", "gold_minute", "silver", "bronze"])
def test_an_erasure_that_dies_is_completed_by_the_next(
    shared: Lake, monkeypatch: pytest.MonkeyPatch, table: str
) -> None:
    seal(shared.warehouse, DAY, DAY)
    before_rewriting(monkeypatch, table, die)
    with pytest.raises(MemoryError):
        erase(shared.warehouse, "acme")
    monkeypatch.undo()
    assert not any(erase(Warehouse(str(shared.home)), "acme").left.values())
    assert all(is_unchanged(shared.warehouse, one) for one in shared.warehouse.seals())
    vacuum(shared.warehouse, older_than=timedelta(0))
    assert not mentions(shared, "acme")


def test_what_a_dead_batch_left_out_of_gold_is_made_up_for_before(
    shared: Lake, other: Lake, monkeypatch: pytest.MonkeyPatch
) -> None:
    happens_at(monkeypatch, "lake_after_silver", die)
    with pytest.raises(MemoryError):
        other.batch(messages([a_body("r-8"), a_body("r-8", tenant_id="zed")], first=15))
    monkeypatch.undo()
    assert not any(erase(shared.warehouse, "acme").left.values())
    shared.batch(messages([a_body("r-9", tenant_id="zed")], first=17))
    assert sum(row["count"] for row in shared.rows("gold_day")) == len(shared.rows("silver")) == 5
    assert agrees(shared)


def test_a_seal_that_differs_already_stops_an_erasure(shared: Lake) -> None:
    from msgspec.structs import replace

    sealed = seal(shared.warehouse, DAY, DAY)
    shared.warehouse.write_seal(replace(sealed, hash="0" * 64, cut=sealed.cut))
    shared.warehouse.write_seal(replace(sealed, hash="0" * 64, cut=shared.warehouse.head()))
    with pytest.raises(Misconfigured, match="differs already"):
        erase(shared.warehouse, "acme")
    assert len(shared.rows("bronze")) == 14


@pytest.mark.parametrize("tenant", ["", "a" * 4097])
def test_a_tenant_must_be_named(lake: Lake, tenant: str) -> None:
    with pytest.raises(Misconfigured, match="--tenant"):
        erase(lake.warehouse, tenant)


def before_rewriting(
    monkeypatch: pytest.MonkeyPatch, table: str, happens: Callable[[], object]
) -> None:
    """Once, after the files of the table were written again, before their commit."""
    commit, due = LakeTable._try_commit, {table}

    def commit_late(self: LakeTable, *arguments: Any) -> bool:
        if self.name in due and any(type(one).__name__ == "RemoveAction" for one in arguments[1]):
            due.clear()
            happens()
        return commit(self, *arguments)

    monkeypatch.setattr(LakeTable, "_try_commit", commit_late)
