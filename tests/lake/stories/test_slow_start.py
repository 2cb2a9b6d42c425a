"""A machine so busy that the source's Python does not start within the ten seconds that Spark gives
it: the query is started again.
"""

import sys
from pathlib import Path
from typing import Any
from unittest.mock import Mock

import pytest
from pyspark.errors import StreamingQueryException
from pyspark.sql import SparkSession

from router.lake.jobs.ingest import MOST_STARTS, IngestFailed, RunningIngest
from router.lake.warehouse import Warehouse
from tests.support.broker import Broker
from tests.support.lake_driver import fill_usage_stream, run_ingest

EVENTS = 50
DEAD_AT_FIRST = """#!/bin/sh
case "$*" in *streaming_source_runner*) [ -e {done} ] || {{ touch {done}; exit 1; }};; esac
exec {python} "$@"
"""


@pytest.mark.matrix  # Spark waits for ten seconds
def test_a_source_whose_python_does_not_start_is_started_again(
    broker: Broker, quiet_spark: SparkSession, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    python, done = tmp_path / "python", tmp_path / "done"
    python.write_text(DEAD_AT_FIRST.format(done=done, python=sys.executable))
    python.chmod(0o755)
    monkeypatch.setattr(quiet_spark.sparkContext, "pythonExec", str(python))
    fill_usage_stream(broker, EVENTS)
    run_ingest(quiet_spark, broker, tmp_path / "warehouse")
    progress = Warehouse(str(tmp_path / "warehouse")).last_progress()
    assert progress is not None
    assert progress.last == EVENTS
    assert done.exists()


@pytest.mark.parametrize(("is_called", "starts"), [(False, MOST_STARTS), (True, 1)])
def test_a_query_is_started_again_a_few_times_and_never_after_its_first_batch(
    is_called: bool, starts: int
) -> None:
    query, sink = Mock(), Mock(is_called=is_called, error=None)
    query.awaitTermination.side_effect = StreamingQueryException("it ended")
    start: Any = Mock(return_value=query)
    running = RunningIngest(start, sink, 0, None)
    with pytest.raises(IngestFailed):
        wait_for_end(running)
    assert start.call_count == starts


def wait_for_end(running: RunningIngest) -> None:
    while not running.wait(1):
        pass
