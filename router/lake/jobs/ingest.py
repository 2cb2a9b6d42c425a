"""The streaming query: it writes each micro-batch of the stream into all tables, in one commit, exactly once.

`micro_batch_sink` makes that exactly once. The query starts where the log ends, not where Spark's checkpoint says: the log is
the state of the tables.
"""

from __future__ import annotations

from collections.abc import Mapping

import msgspec
from msgspec import Struct
from pyspark.errors import PySparkException
from pyspark.sql import SparkSession
from pyspark.sql.streaming.query import StreamingQuery

from router.core.errors import Misconfigured, RouterError
from router.lake.jobs import staging_source
from router.lake.jobs.micro_batch_sink import CommitCallback, MicroBatchSink
from router.lake.source import DataLoss
from router.lake.source.broker import read_facts
from router.lake.source.offset import StreamState
from router.lake.source.options import read_options
from router.lake.tables.body import BOUNDS, EventBounds
from router.lake.warehouse import Warehouse

MAX_ROWS = 500_000  # of a micro-batch: the driver holds a few integers for each, a task first some ten thousand messages, then its events
CHECKPOINT = "_checkpoints/ingest"


class IngestFailed(RouterError):
    """Spark ended the query. What is committed is complete; the next run continues after it."""

    code = "ingest_failed"


class IngestJob(Struct, frozen=True, kw_only=True):
    """What to read, and where to write it."""

    warehouse: str
    source: Mapping[str, str]  # options of the `jetstream` format
    continuous: bool = False
    max_rows: int = MAX_ROWS
    interval: str = "2 seconds"  # of a continuous query
    partitions: int | None = None  # ranges that are read side by side; None: as many as the cluster runs at once
    bounds: EventBounds = BOUNDS


class RunningIngest:
    def __init__(self, query: StreamingQuery, writing: MicroBatchSink, waiting: int) -> None:
        self._query = query
        self._writing = writing
        self.waiting = waiting  # messages in the stream when the query started

    @property
    def is_busy(self) -> bool:
        return bool(self._query.status["isTriggerActive"])

    def stop(self) -> None:
        self._query.stop()

    def wait(self, seconds: int) -> bool:
        """Wait, and return whether the query is over. Raises its error: ours if it was one of ours, else IngestFailed."""
        try:
            return bool(self._query.awaitTermination(seconds))
        except PySparkException as exc:
            raise self._writing.error or IngestFailed(_take_first_line(exc)) from exc


def start_ingest(spark: SparkSession, job: IngestJob, on_commit: CommitCallback = lambda _: None) -> RunningIngest:
    """Start the query; it calls `on_commit` after every commit. Raises DataLoss, Misconfigured, BrokerUnavailable."""
    warehouse = Warehouse(job.warehouse)
    options = _make_options(job, spark.sparkContext.defaultParallelism)
    facts = read_facts(read_options(options))
    following = _find_start(warehouse, facts, fails_on_loss=options.get("failOnDataLoss", "true") == "true")
    writing = MicroBatchSink(warehouse, facts, on_commit)
    staging_source.register(spark)
    staging = {"warehouse": warehouse.location, "bounds": msgspec.json.encode(job.bounds).decode()}
    source = {**options, "startingOffsets": str(following), **staging}
    frame = spark.readStream.format(staging_source.FORMAT).options(**source).load()
    query = frame.writeStream.foreachBatch(writing.write_batch).option("checkpointLocation", warehouse.storage.uri(CHECKPOINT))
    query = query.trigger(processingTime=job.interval) if job.continuous else query.trigger(availableNow=True)
    return RunningIngest(query.start(), writing, facts.head - following)


def _make_options(job: IngestJob, parallelism: int) -> dict[str, str]:
    """Return the source's options. A source cannot ask Spark how many tasks run at once, so the job says it."""
    return {"maxOffsetsPerTrigger": str(job.max_rows), "minPartitions": str(job.partitions or parallelism), **job.source}


def _find_start(warehouse: Warehouse, facts: StreamState, *, fails_on_loss: bool) -> int:
    """Return the sequence after the last one in the log. The checkpoint does not count: the log is the state of the tables."""
    last = warehouse.last_ingest()
    if last is None or last.last is None:
        return facts.first
    if last.stream != facts.stream or last.created != facts.created:
        raise Misconfigured("warehouse", f"it holds {last.stream}, made {last.created}; this is {facts.stream}, made {facts.created}")
    if last.last + 1 < facts.first and fails_on_loss:
        raise DataLoss(f"{facts.stream} begins at {facts.first} now: sequences from {last.last + 1} on are gone")
    return max(last.last + 1, facts.first)


def _take_first_line(exc: PySparkException) -> str:
    return str(exc).strip().partition("\n")[0]
