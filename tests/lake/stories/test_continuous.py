"""An ingest without an end: it writes new messages into the tables until it is stopped."""

from pathlib import Path

import pytest
from pyspark.sql import SparkSession

from router.lake.files import read_columns
from router.lake.jobs.ingest import IngestJob, RunningIngest, start_ingest
from router.lake.tables.body import EventBounds
from router.lake.warehouse import Cut, Warehouse
from tests.support.broker import Broker
from tests.support.lake import Feed
from tests.support.lake_jobs import a_body


@pytest.mark.slow  # the first test that needs Spark starts it
@pytest.mark.timeout(400)
def test_what_comes_while_it_runs_is_in_the_tables_and_told(
    broker: Broker, quiet_spark: SparkSession, tmp_path: Path
) -> None:
    """UL-13."""
    feed = Feed(broker.url).create().put([a_body("r-1"), a_body("r-2")])
    told: list[Cut] = []
    source = {"url": feed.url, "stream": feed.stream}
    running = start_ingest(
        quiet_spark,
        IngestJob(
            warehouse=str(tmp_path),
            source=source,
            continuous=True,
            interval="100 milliseconds",
            bounds=EventBounds(max_cost=1),
        ),
        lambda cut, _: told.append(cut),
    )
    try:
        assert running.waiting == 2
        read(running, told, 2)
        feed.put(
            [
                a_body("r-1"),
                a_body("r-3"),
                b"{broken",
                a_body("slow", latency_ms=2**53 + 1),
                a_body("dear", cost="1.01"),
            ]
        )
        read(running, told, 7)
        assert not running.wait(1)
    finally:
        running.stop()
    warehouse = Warehouse(str(tmp_path))
    counted = read_columns(warehouse, "silver", warehouse.files("silver"), ["request_id"])[
        "request_id"
    ].to_pylist()
    assert sorted(counted) == ["r-1", "r-2", "r-3"]
    reasons = read_columns(warehouse, "quarantine", warehouse.files("quarantine"), ["reason"])[
        "reason"
    ].to_pylist()
    assert sorted(reasons) == ["invalid:cost", "invalid:latency_ms", "not_an_event"]


def read(running: RunningIngest, told: list[Cut], messages: int) -> None:
    """Return when so many are told. Spark may give up the first start on a busy machine; `wait`
    starts the query again.
    """
    while sum(one.counts["read"] for one in list(told)) < messages:
        assert not running.wait(1)
    assert sum(one.counts["read"] for one in list(told)) == messages
