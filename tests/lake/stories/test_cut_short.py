"""A micro-batch that is cut short, wherever: the next run completes the tables, and they are the truth.

Here Spark lives on, and only the batch dies; what a SIGKILL does besides is `test_kills`.
"""

import shutil
from collections.abc import Callable
from datetime import timedelta
from pathlib import Path

import pytest
from pyspark.sql import SparkSession

from router.lake.files import read_columns
from router.lake.jobs.ingest import CHECKPOINT, IngestFailed
from router.lake.jobs.maintenance import compact, sweep
from router.lake.warehouse import Warehouse
from tests.support.broker import Broker
from tests.support.kills import KillPlan
from tests.support.lake_driver import POINTS, count_in_tables, fill_usage_stream, run_ingest
from tests.support.lake_jobs import Lake, a_body

pytestmark = [pytest.mark.slow, pytest.mark.timeout(300)]  # micro-batches of many small Spark jobs each

EVENTS, BATCH = 1_600, 400
IN_TURN = sorted(POINTS, key="lake_after_commit".__eq__)  # last: a batch that is in the log already would not come by there again


def at_first(monkeypatch: pytest.MonkeyPatch, point: str, happens: Callable[[], object]) -> set[str]:
    """Something happens at the next batch's crash point, and at no later one. Returns a set that is empty once it has happened."""
    due = {point}

    def crashpoint(name: str) -> None:
        if name in due:
            due.clear()
            happens()

    monkeypatch.setattr("router.lake.jobs.micro_batch_sink.crashpoint", crashpoint)
    return due


def die() -> None:
    raise MemoryError


def test_whatever_a_batch_had_done_and_whatever_was_lost_the_next_run_completes_it_once(
    broker: Broker, quiet_spark: SparkSession, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """UL-3, UL-25: a run after the other on the same tables, each of them cut short elsewhere: a query costs more than its rows.

    A power cut: Spark syncs no checkpoint to the disk; then it gives a batch the number of one that is in the log, and another range.
    """
    truth, home, plan = fill_usage_stream(broker, EVENTS), tmp_path / "warehouse", KillPlan(("everywhere",), 1, 0, EVENTS)

    def dies_at(point: str) -> int:
        due = at_first(monkeypatch, point, die)
        while due:  # Spark itself gives up after some seconds where the machine is busy, before the point comes: run again
            with pytest.raises(IngestFailed):
                run_ingest(quiet_spark, broker, home, BATCH)
        return whole(home)

    assert [dies_at(point) for point in IN_TURN] == [0, 0, BATCH, 2 * BATCH]
    assert dies_at("lake_after_commit") == 3 * BATCH
    for written_down in ("offsets", "commits"):
        for file in (home / CHECKPOINT / written_down).iterdir():
            file.unlink()
    run_ingest(quiet_spark, broker, home)
    assert (after_the_power_cut := count_in_tables(plan, home, truth)).is_exact, after_the_power_cut
    shutil.rmtree(home / "_checkpoints")
    run_ingest(quiet_spark, broker, home)
    assert count_in_tables(plan, home, truth) == after_the_power_cut


def whole(home: Path) -> int:
    """How far the tables are: up to there each message is in them, once, and none beyond."""
    warehouse = Warehouse(str(home))
    last = warehouse.last_ingest()
    upto = last.last or 0 if last is not None else 0
    kept = read_columns(warehouse, "bronze", warehouse.files("bronze"), ["seq"])["seq"].to_pylist()
    assert sorted(kept) == list(range(1, upto + 1))
    return upto


def test_a_batch_that_lost_the_race_for_its_commit_is_done_again_on_what_the_winner_wrote(
    lake: Lake, monkeypatch: pytest.MonkeyPatch
) -> None:
    lake.take(a_body("r-1"))
    lake.take(a_body("r-2"))
    at_first(monkeypatch, "lake_after_write", lambda: compact(lake.warehouse))
    lake.take(a_body("r-1"), a_body("r-3"))
    assert [commit.kind for commit in lake.warehouse.commits()] == ["ingest", "ingest", "compact", "ingest"]
    assert [row["request_id"] for row in lake.rows("silver")] == ["r-1", "r-2", "r-3"]
    assert [row["first_seq"] for row in lake.rows("duplicates")] == [1]


def test_what_a_dead_batch_left_is_in_no_table_and_is_swept_when_it_is_old(lake: Lake, monkeypatch: pytest.MonkeyPatch) -> None:
    lake.take(a_body("r-1"))
    at_first(monkeypatch, "lake_after_write", die)
    with pytest.raises(MemoryError):
        lake.take(a_body("r-2"))
    assert [row["request_id"] for row in lake.rows("silver")] == ["r-1"]
    assert sweep(lake.warehouse) == []  # it may be at work still
    gone = sweep(lake.warehouse, older_than=timedelta(0))
    assert {name.split("/")[0] for name in gone} == {"_staging", "bronze", "silver", "gold_minute", "gold_day"}
    assert not [name for name in gone if Path(lake.warehouse.storage.resolve(name)).exists()]
    assert [row["request_id"] for row in lake.rows("silver")] == ["r-1"]
