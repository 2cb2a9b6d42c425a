"""A seal that is months old is read by the logs of its versions, which nothing may cut."""

import os
import time
from collections.abc import Callable
from datetime import timedelta
from pathlib import Path

import pyarrow as pa
import pytest
from deltalake import DeltaTable, PostCommitHookProperties, Transaction

from router.lake.jobs.erase import erase
from router.lake.jobs.maintenance import compact, vacuum
from router.lake.jobs.retention import drop_old_days
from router.lake.jobs.seal import is_unchanged, seal
from router.lake.tables.arrow import ARROW
from router.lake.warehouse import Seal, Warehouse
from router.lake.warehouse.delta import CHECKPOINT_INTERVAL, LakeTable
from router.lake.warehouse.storage import Storage
from tests.support.lake_jobs import NOON, Lake, a_body

DAY = NOON.date()
MONTHS = 100 * 24 * 3600  # seconds; delta-rs cuts a log after 30 days
Work = Callable[[Warehouse], object]


def fill_with_an_old_seal(lake: Lake) -> Seal:
    """A sealed day, then batches up to the last commit before a checkpoint of the table of days;
    all logs are months old.
    """
    lake.take(a_body("r-1"))
    sealed = seal(lake.warehouse, DAY, DAY)
    for number in range(2, int(CHECKPOINT_INTERVAL) + 1):
        lake.take(a_body(f"r-{number}", tenant_id="zed"))
    age_logs(Path(lake.home))
    return sealed


def age_logs(home: Path) -> None:
    for path in home.rglob("_delta_log/*"):
        os.utime(path, (time.time() - MONTHS,) * 2)


def as_created_before(home: Path) -> None:
    """Tables of a version that did not say that their logs are kept."""
    for log in list(home.glob("*/_delta_log")):
        whole = PostCommitHookProperties(cleanup_expired_logs=False)
        DeltaTable(log.parent).alter.set_table_properties(
            {"delta.enableExpiredLogCleanup": "true"}, post_commithook_properties=whole
        )


@pytest.fixture(params=["made now", "made before"])
def old(lake: Lake, request: pytest.FixtureRequest) -> tuple[Lake, Seal]:
    sealed = fill_with_an_old_seal(lake)
    if request.param == "made before":
        as_created_before(Path(lake.home))
        age_logs(Path(lake.home))
    return lake, sealed


def vacuum_an_orphan(warehouse: Warehouse) -> None:
    """A vacuum commits where it has something to delete."""
    for name in warehouse.tables:
        (Path(warehouse.location) / name / "of-a-dead-task.parquet").write_bytes(b"")
    assert vacuum(warehouse, older_than=timedelta(0))


@pytest.mark.parametrize("work", [compact, vacuum_an_orphan])
def test_a_seal_that_is_months_old_is_read_after_maintenance(
    old: tuple[Lake, Seal], work: Work
) -> None:
    """UL-10."""
    lake, sealed = old
    for _ in range(3):  # a checkpoint comes in between, wherever the log stood
        work(lake.warehouse)
        for number in range(int(CHECKPOINT_INTERVAL) // 2):
            lake.take(a_body(f"r-{time.monotonic_ns()}-{number}", tenant_id="zed"))
        age_logs(Path(lake.home))
    after = Warehouse(str(lake.home))
    assert is_unchanged(after, sealed)
    assert [row["count"] for row in lake.rows("gold_day", sealed.cut)] == [1]
    assert all(
        (Path(lake.home) / table / "_delta_log" / f"{0:020}.json").exists()
        for table in after.tables
    )


def test_whatever_needs_old_versions_works_after_maintenance_of_months_old_tables(
    lake: Lake,
) -> None:
    """An erasure and the retention look at every seal, and both vacuum."""
    fill_with_an_old_seal(lake)
    compact(lake.warehouse)
    after = Warehouse(str(lake.home))
    vacuum(after)
    assert drop_old_days(after, DAY + timedelta(days=1)).days == [str(DAY)]
    assert erase(after, "acme").resealed == 1


def test_a_column_that_comes_cuts_no_log(tmp_path: Path) -> None:
    """UL-6."""
    whole = pa.schema([*ARROW["gold_day"], ("day", pa.string())])
    before = LakeTable(
        Storage(str(tmp_path)), "gold_day", pa.schema([*list(whole)[:-2], whole.field("day")])
    )
    for number in range(1, int(CHECKPOINT_INTERVAL) * 2 - 1):
        before.commit([], lambda _, number=number: [Transaction("ingest", number)])  # type: ignore[misc]
    as_created_before(tmp_path)
    age_logs(tmp_path)
    LakeTable(Storage(str(tmp_path)), "gold_day", whole).commit(
        [], lambda _: [Transaction("ingest", 1000)]
    )
    assert (tmp_path / "gold_day/_delta_log" / f"{0:020}.json").exists()
