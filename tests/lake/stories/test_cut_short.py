"""A micro-batch that is cut short, wherever: the next run completes the tables, and they are the
truth.

Here Spark lives on, and only the batch dies; what a SIGKILL does besides is `test_kills`.
"""

from collections.abc import Sequence
from datetime import timedelta
from pathlib import Path

import pytest
from pyspark.sql import SparkSession

from router.lake.files import read_columns
from router.lake.jobs.ingest import IngestFailed
from router.lake.jobs.maintenance import vacuum
from router.lake.warehouse import Warehouse
from tests.support.broker import Broker
from tests.support.kills import KillPlan
from tests.support.lake_crashes import die, happens_at
from tests.support.lake_driver import POINTS, count_in_tables, fill_usage_stream, run_ingest
from tests.support.lake_jobs import Lake, a_body

# micro-batches of many small Spark jobs each
pytestmark = [pytest.mark.slow, pytest.mark.timeout(900)]

EVENTS, BATCH = 1_600, 400
# How far the newest cut is after each of them: a batch before silver's commit is read again, one
# after it is completed by the next run.
SEEN = {"lake_after_gold": BATCH, "lake_after_commit": 3 * BATCH}
# committed after it, and before silver
LIKE_BRONZE = {f"lake_after_{table}" for table in ("quarantine", "duplicates", "conflicts")}


@pytest.mark.parametrize(
    "points",
    [
        pytest.param(
            [point for point in POINTS if point not in LIKE_BRONZE], id="one of each kind"
        ),
        pytest.param(POINTS, id="every point", marks=pytest.mark.matrix),
    ],
)
def test_whatever_a_batch_had_done_and_whatever_was_lost_the_next_run_completes_it_once(
    broker: Broker,
    quiet_spark: SparkSession,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    points: Sequence[str],
) -> None:
    """UL-3, UL-25: a run after the other on the same tables, each of them cut short elsewhere: a
    query costs more than its rows.
    """
    truth, home, plan = (
        fill_usage_stream(broker, EVENTS),
        tmp_path / "warehouse",
        KillPlan(("everywhere",), 1, 0, EVENTS),
    )

    def dies_at(point: str) -> int:
        due = happens_at(monkeypatch, point, die)
        # Spark itself gives up after some seconds where the machine is busy, before the point
        # comes: run again
        while due:
            with pytest.raises(IngestFailed):
                run_ingest(quiet_spark, broker, home, BATCH)
        return whole(home)

    assert [dies_at(point) for point in points] == [SEEN.get(point, 0) for point in points]
    run_ingest(quiet_spark, broker, home)
    assert (at_last := count_in_tables(plan, home, truth)).is_exact, at_last
    run_ingest(quiet_spark, broker, home)
    assert count_in_tables(plan, home, truth) == at_last


def whole(home: Path) -> int:
    """How far the tables are: up to there each message is in them, once, and none beyond."""
    warehouse = Warehouse(str(home))
    progress = warehouse.last_progress()
    upto = 0 if progress is None else progress.last
    kept = read_columns(warehouse, "bronze", warehouse.files("bronze"), ["seq"])["seq"].to_pylist()
    assert sorted(kept) == list(range(1, upto + 1))
    return upto


def test_what_a_dead_batch_left_is_in_no_table_and_a_vacuum_deletes_it_when_it_is_old(
    lake: Lake, monkeypatch: pytest.MonkeyPatch
) -> None:
    lake.take(a_body("r-1"))
    happens_at(monkeypatch, "lake_after_write", die)
    with pytest.raises(MemoryError):
        lake.take(a_body("r-2"))
    assert [row["request_id"] for row in lake.rows("silver")] == ["r-1"]
    assert vacuum(lake.warehouse) == []  # it may be at work still
    gone = vacuum(lake.warehouse, older_than=timedelta(0))
    assert {name.split("/")[0] for name in gone} == {
        "bronze",
        "silver",
        "gold_minute",
        "gold_hour",
        "gold_day",
    }
    assert not [name for name in gone if Path(lake.warehouse.storage.resolve(name)).exists()]
    assert [row["request_id"] for row in lake.rows("silver")] == ["r-1"]
