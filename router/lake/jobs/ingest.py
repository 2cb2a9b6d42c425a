"""The streaming query, and its sink: each micro-batch of the stream is written into all tables,
exactly once.

`commits` makes that exactly once. The query starts after silver's last sequence, not where Spark's
checkpoint says: a checkpoint is disposable, and by default a directory of this run.
"""

from __future__ import annotations

import logging
from collections import defaultdict
from collections.abc import Callable, Mapping
from functools import partial
from tempfile import TemporaryDirectory

import msgspec
from msgspec import Struct
from pyspark.errors import PySparkException
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.streaming.query import StreamingQuery

from router.core.clock import wall
from router.core.crashpoints import crashpoint
from router.core.errors import Misconfigured, RouterError
from router.lake.jobs.commits import append_cut, catch_up, commit_batch, find_end
from router.lake.jobs.derive import BatchPlan, TaskResult, make_task, merge_files, sum_counts
from router.lake.jobs.staging import FORMAT, StagingOptions, register
from router.lake.jobs.stream_end import StreamEnd, StreamHistory, StreamReport
from router.lake.source import DataLoss
from router.lake.source.broker import read_facts
from router.lake.source.offset import StreamState
from router.lake.source.options import read_options
from router.lake.tables.body import BOUNDS, EventBounds
from router.lake.tables.event import BUCKETS
from router.lake.tables.late import list_sealed_days
from router.lake.warehouse import Cut, DataFile, Progress, Warehouse
from router.lake.warehouse.commit import name_application

# -- Write each micro-batch into the tables once, wherever a process dies, also beside other
# writers (`commits` says why).
#
# Progress is silver's: Spark's checkpoint and its number of a batch prove nothing. Files that no
# commit names are part of no table.


CutCallback = Callable[[Cut], StreamState | None]


class MicroBatchSink:
    """The function that Spark calls with each micro-batch.

    `facts`: the stream at the start. `tasks`: of the second step. `on_cut` returns the stream as it
    is after a cut; None: it is not known.
    """

    def __init__(
        self, warehouse: Warehouse, facts: StreamState, tasks: int, on_cut: CutCallback
    ) -> None:
        self._warehouse = warehouse
        self._facts = facts
        self._history = StreamHistory(facts, wall())
        self._tasks = tasks
        self._on_cut = on_cut
        self.is_called = False
        self.error: Exception | None = None  # why the last batch failed, if it did on the driver

    def write_batch(self, frame: DataFrame, _number: int) -> None:
        self.is_called = True
        try:
            self._write(frame)
        except Exception as exc:
            self.error = exc  # Spark passes on its text only
            raise

    def _write(self, frame: DataFrame) -> None:
        plan = self._plan()
        parted = frame.repartitionById(self._tasks, frame["task"]).rdd.mapPartitions(
            make_task(plan)
        )
        results = [msgspec.json.decode(body, type=TaskResult) for body in parted.collect()]
        crashpoint("lake_after_write")
        added = merge_files(result.added for result in results)
        if (progress := self._find_progress(added.get("bronze", []))) is None:
            return
        cut = commit_batch(
            self._warehouse,
            progress,
            added,
            plan.sealed,
            sum_counts(result.counts for result in results),
        )
        crashpoint("lake_after_commit")
        if cut is not None:
            self._follow(cut)

    def _follow(self, cut: Cut) -> None:
        at = wall()
        if (facts := self._on_cut(cut)) is not None:
            self._history.add(facts, at)

    def _plan(self) -> BatchPlan:
        """Look at the tables as they are now: what is committed later shows when this batch is."""
        return BatchPlan(
            warehouse=self._warehouse.location,
            known=self._list_known(),
            sealed=list_sealed_days(self._warehouse.seals()),
            revision=self._warehouse.head() + 1,
        )

    def _list_known(self) -> dict[int, list[DataFile]]:
        """Silver's files, by bucket, of what the stream held when the batch came, or would have
        held if nothing had trimmed it.

        The batch begins after silver's last sequence; one that does not is not committed.
        """
        silver = self._warehouse.tables["silver"]
        if (state := silver.load_state()) is None:
            return {}
        table, files = state
        last = (
            table.transaction_version(name_application(self._facts.stream, self._facts.created))
            or 0
        )
        reading = self._history.find_before(last + 1)
        recent = (
            set()
            if reading.oldest_s is None
            else silver.list_recent(round(reading.oldest_s * 1000))
        )
        files_by_bucket: defaultdict[int, list[DataFile]] = defaultdict(list)
        for file in files:
            if (file.max_seq or 0) >= reading.facts.first or file.path in recent:
                files_by_bucket[file.bucket or 0].append(file)
        return dict(files_by_bucket)

    def _find_progress(self, bronze: list[DataFile]) -> Progress | None:
        """The sequences of the batch; None if there was no message."""
        if not bronze:
            return None
        first, last = (
            min(file.min_seq or 0 for file in bronze),
            max(file.max_seq or 0 for file in bronze),
        )
        return Progress(
            stream=self._facts.stream, created=self._facts.created, first=first, last=last
        )


# -- The streaming query: it writes each micro-batch of the stream into all tables, exactly once.


MAX_ROWS = 500_000  # of a micro-batch: a task holds its events
# of a query that Spark ends before its first micro-batch: Spark gives the Python of a source ten
# seconds to start
MOST_STARTS = 3

logger = logging.getLogger(__name__)

IngestCallback = Callable[[Cut, StreamReport], None]


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
    # ranges that are read side by side; None: as many as the cluster runs at once
    partitions: int | None = None
    bounds: EventBounds = BOUNDS
    checkpoint: str | None = None  # a directory for Spark; None: a temporary one
    is_trimmed: bool = False  # whether the stream's messages are deleted when the tables hold them


class RunningIngest:
    """A query, which starts with this object."""

    def __init__(
        self,
        start: Callable[[], StreamingQuery],
        writing: MicroBatchSink,
        waiting: int,
        checkpoint: TemporaryDirectory[str] | None,
    ) -> None:
        self._start = start
        self._query, self._starts = start(), 1
        self._writing = writing
        self._checkpoint = checkpoint  # removed with this object
        self.waiting = waiting  # messages in the stream when the query started

    @property
    def is_busy(self) -> bool:
        return bool(self._query.status["isTriggerActive"])

    def stop(self) -> None:
        self._query.stop()

    def wait(self, seconds: int) -> bool:
        """Wait, and return whether the query is over. Raises its error: ours if it was one of ours,
        else IngestFailed.
        """
        try:
            return bool(self._query.awaitTermination(seconds))
        except PySparkException as exc:
            if self._start_again():
                return False
            own = self._writing.error
            if isinstance(own, RouterError):
                raise own from None
            raise IngestFailed(
                _take_first_line(exc) if own is None else f"{type(own).__name__}: {own}"
            ) from exc

    def _start_again(self) -> bool:
        """Start the query again if it ended before a micro-batch came to us: nothing of ours has
        failed then, and nothing is committed.
        """
        if self._writing.is_called or self._starts == MOST_STARTS:
            return False
        self._starts += 1
        logger.warning(
            "Spark ended the query before its first micro-batch; start %d of at most %d follows",
            self._starts,
            MOST_STARTS,
        )
        self._query = self._start()
        return True


def start_ingest(
    spark: SparkSession, job: IngestJob, on_cut: IngestCallback = lambda _, __: None
) -> RunningIngest:
    """Start the query; it calls `on_cut` after every batch. Raises DataLoss, Misconfigured,
    BrokerUnavailable.
    """
    warehouse = Warehouse(job.warehouse)
    warehouse.refuse_old_form()
    parallelism = spark.sparkContext.defaultParallelism
    options = _make_options(job, parallelism)
    facts = read_facts(read_options(options))
    _check_trimming(job, facts)
    following = _find_start(
        warehouse, facts, fails_on_loss=options.get("failOnDataLoss", "true") == "true"
    )
    _complete_last_batch(warehouse, facts)
    end = StreamEnd(read_options(options), is_trimmed=job.is_trimmed)
    if job.is_trimmed and (done := warehouse.last_progress()) is not None:
        end.follow(done)  # the last ingest may have died after its cut
    tasks = min(BUCKETS, job.partitions or parallelism)
    first_end = find_end(warehouse, name_application(facts.stream, facts.created))
    staging = StagingOptions(
        warehouse=warehouse.location, tasks=tasks, bounds=job.bounds, first_end=first_end
    )
    source = {
        **options,
        "startingOffsets": str(following),
        "staging": msgspec.json.encode(staging).decode(),
    }
    register(spark)
    frame = spark.readStream.format(FORMAT).options(**source).load()
    writing = MicroBatchSink(warehouse, facts, tasks, partial(_follow_cut, end, on_cut))
    checkpoint = (
        TemporaryDirectory(prefix="router-ingest-", ignore_cleanup_errors=True)
        if job.checkpoint is None
        else None
    )
    place = job.checkpoint if checkpoint is None else f"file://{checkpoint.name}"
    query = frame.writeStream.foreachBatch(writing.write_batch).option("checkpointLocation", place)
    query = (
        query.trigger(processingTime=job.interval)
        if job.continuous
        else query.trigger(availableNow=True)
    )
    return RunningIngest(query.start, writing, facts.head - following, checkpoint)


def _follow_cut(end: StreamEnd, on_cut: IngestCallback, cut: Cut) -> StreamState | None:
    """Ask the stream after a cut, tell the caller, and return the stream's state; None: the broker
    did not say.
    """
    report = StreamReport() if cut.progress is None else end.follow(cut.progress)
    on_cut(cut, report)
    return report.facts


def _check_trimming(job: IngestJob, facts: StreamState) -> None:
    """Without an age, nothing would say how long an identity may come again in a stream that is
    trimmed.
    """
    if job.is_trimmed and not facts.max_age_s:
        raise Misconfigured(
            "usage.trim_ingested",
            f"{facts.stream} has no max_age, which bounds deduplication; give it one",
        )


def _make_options(job: IngestJob, parallelism: int) -> dict[str, str]:
    """Return the source's options. A source cannot ask Spark how many tasks run at once, so the job
    says it.
    """
    return {
        "maxOffsetsPerTrigger": str(job.max_rows),
        "minPartitions": str(job.partitions or parallelism),
        **job.source,
    }


def _find_start(warehouse: Warehouse, facts: StreamState, *, fails_on_loss: bool) -> int:
    """Return the sequence after the last one in silver. Raises Misconfigured for another stream's
    tables; DataLoss.
    """
    _refuse_another_stream(warehouse, facts)
    last = warehouse.last_sequence(facts.stream, facts.created)
    if 0 < last < facts.first - 1 and fails_on_loss:
        raise DataLoss(
            f"{facts.stream} begins at {facts.first} now: sequences from {last + 1} on are gone"
        )
    return max(last + 1, facts.first)


def _refuse_another_stream(warehouse: Warehouse, facts: StreamState) -> None:
    """Raises Misconfigured if a cut names another stream, or if a batch that has no cut yet is of
    another one.
    """
    read, own = warehouse.last_progress(), f"this is {facts.stream}, made {facts.created}"
    if read is not None and (read.stream, read.created) != (facts.stream, facts.created):
        raise Misconfigured("warehouse", f"it holds {read.stream}, made {read.created}; {own}")
    bronze = warehouse.tables["bronze"]
    if (
        read is None
        and bronze.list_files()
        and bronze.progress_of(name_application(facts.stream, facts.created)) is None
    ):
        raise Misconfigured(
            "warehouse", f"it holds messages of another stream, or of one made before; {own}"
        )


def _complete_last_batch(warehouse: Warehouse, facts: StreamState) -> None:
    """Make up for what a crash after silver's commit left out: gold, and the cut."""
    last = warehouse.last_sequence(facts.stream, facts.created)
    cut = warehouse.last_progress()
    done = 0 if cut is None else cut.last
    if done < last:
        progress = Progress(stream=facts.stream, created=facts.created, first=done + 1, last=last)
        catch_up(warehouse, progress)
        append_cut(warehouse, progress, {})


def _take_first_line(exc: PySparkException) -> str:
    return str(exc).strip().partition("\n")[0]
