"""A micro-batch that is cut short, wherever: the next run completes the tables, and they are the truth.

Here Spark lives on, and only the batch dies; what a SIGKILL does besides is `test_kills`.
"""

import shutil
from collections.abc import Callable
from datetime import timedelta
from pathlib import Path

import pytest
from pyspark.sql import SparkSession

from router.lake.jobs.compact import compact, sweep
from router.lake.jobs.ingest import CHECKPOINT, IngestFailed
from tests.support.broker import Broker
from tests.support.lake_jobs import Lake, a_body
from tests.support.lake_kills import POINTS, counted, filled, ingested

pytestmark = [pytest.mark.slow, pytest.mark.timeout(300)]  # micro-batches of many small Spark jobs each

EVENTS, BATCH = 1_500, 500


def at_first(monkeypatch: pytest.MonkeyPatch, point: str, happens: Callable[[], object]) -> None:
    """Something happens at the next batch's crash point, and at no later one."""
    due = {point}

    def crashpoint(name: str) -> None:
        if name in due:
            due.clear()
            happens()

    monkeypatch.setattr("router.lake.jobs.once.crashpoint", crashpoint)


def die() -> None:
    raise MemoryError


@pytest.mark.parametrize("point", POINTS)
def test_whatever_a_batch_had_done_the_next_run_completes_it_once(
    broker: Broker, quiet_spark: SparkSession, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, point: str
) -> None:
    truth, home = filled(broker, EVENTS), tmp_path / "warehouse"
    at_first(monkeypatch, point, die)
    with pytest.raises(IngestFailed):
        ingested(quiet_spark, broker, home, BATCH)
    ingested(quiet_spark, broker, home)
    row = counted(point, 1, home, truth, EVENTS)
    assert row.is_exact, row


def test_a_lost_checkpoint_costs_nothing_and_doubles_nothing(broker: Broker, spark: SparkSession, tmp_path: Path) -> None:
    truth, home = filled(broker, EVENTS), tmp_path / "warehouse"
    ingested(spark, broker, home)
    shutil.rmtree(home / "_checkpoints")
    ingested(spark, broker, home)
    row = counted("the checkpoint", 1, home, truth, EVENTS)
    assert row.is_exact, row


def test_a_power_cut_that_took_what_spark_wrote_down_last_costs_nothing(
    broker: Broker, quiet_spark: SparkSession, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Spark syncs no checkpoint to the disk; then it gives a batch the number of one that is in the log, and another range."""
    truth, home = filled(broker, EVENTS), tmp_path / "warehouse"
    at_first(monkeypatch, "lake_after_commit", die)
    with pytest.raises(IngestFailed):
        ingested(quiet_spark, broker, home, BATCH)
    for file in (home / CHECKPOINT / "offsets").iterdir():
        file.unlink()
    ingested(quiet_spark, broker, home)
    row = counted("power cut", 1, home, truth, EVENTS)
    assert row.is_exact, row


def test_a_batch_that_lost_the_race_for_its_commit_is_done_again_on_what_the_winner_wrote(
    lake: Lake, monkeypatch: pytest.MonkeyPatch
) -> None:
    lake.take(a_body("r-1"))
    lake.take(a_body("r-2"))
    at_first(monkeypatch, "lake_after_write", lambda: compact(lake.warehouse, at_least=2))
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
    assert {name.split("/")[0] for name in gone} == {"_aside", "bronze", "silver", "gold_minute", "gold_day"}
    assert not [name for name in gone if Path(lake.warehouse.storage.inside(name)).exists()]
    assert [row["request_id"] for row in lake.rows("silver")] == ["r-1"]
