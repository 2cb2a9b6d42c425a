"""Write each micro-batch into the tables once, in one commit, wherever a process dies.

Why nothing is lost or doubled if the driver dies: messages that the log covers are not read again (the log has their last
sequence), and all others are read again from the same sequences. The same holds beside another writer, and after a pause of any
length: each attempt compares its sequences with the log that it builds on, and drops those that the log has. Spark's number of a
batch proves nothing: a power cut may take its checkpoint, and then another range gets that number. Files that no commit names are
part of no table.
"""

from __future__ import annotations

from collections.abc import Callable

from pyspark.sql import DataFrame, SparkSession

from router.core.crashpoints import crashpoint
from router.core.errors import Conflict, RouterError
from router.lake.identities import IdentityIndex
from router.lake.jobs.micro_batch import MicroBatch
from router.lake.jobs.staging import StagedRange
from router.lake.jobs.staging_file import remove_staging
from router.lake.jobs.staging_source import decode_range
from router.lake.source.offset import StreamState
from router.lake.warehouse import Commit, Warehouse

WRITE_ATTEMPTS = 3  # to commit a batch: a seal or a compaction may commit first


CommitCallback = Callable[[Commit], None]


class MicroBatchSink:
    """The function that Spark calls with each micro-batch."""

    def __init__(self, warehouse: Warehouse, facts: StreamState, on_commit: CommitCallback) -> None:
        self._warehouse = warehouse
        self._identities = IdentityIndex(warehouse)
        self._facts = facts
        self._on_commit = on_commit
        self.error: RouterError | None = None

    def write_batch(self, frame: DataFrame, number: int) -> None:
        try:
            self._write(frame, number)
        except RouterError as exc:
            self.error = exc  # Spark passes on its text only
            raise

    def _write(self, frame: DataFrame, number: int) -> None:
        spark = frame.sparkSession
        query = str(spark.sparkContext.getLocalProperty("sql.streaming.queryId"))
        landed = [decode_range(row.landed) for row in frame.collect()]
        crashpoint("lake_after_read")
        if (commit := self._commit_with_retries(spark, landed, query, number)) is not None:
            self._on_commit(commit)
        for one in landed:
            remove_staging(self._warehouse, one.staging_path)
        crashpoint("lake_before_checkpoint")

    def _commit_with_retries(self, spark: SparkSession, landed: list[StagedRange], query: str, number: int) -> Commit | None:
        for _ in range(WRITE_ATTEMPTS - 1):
            try:
                return self._try_commit(spark, landed, query, number)
            except Conflict:
                continue
        return self._try_commit(spark, landed, query, number)

    def _try_commit(self, spark: SparkSession, landed: list[StagedRange], query: str, number: int) -> Commit | None:
        batch = MicroBatch(spark, self._warehouse, self._identities, landed)
        if batch.is_empty:
            return None
        batch.write_tables()
        crashpoint("lake_after_write")
        commit = self._warehouse.append(lambda at, time: self._make_commit(batch, at, time, query, number), after=batch.after)
        crashpoint("lake_after_commit")
        return commit

    def _make_commit(self, batch: MicroBatch, commit: int, at: str, query: str, number: int) -> Commit:
        first, last = batch.span
        added = {table: files for table, files in batch.added.items() if files}
        return Commit(
            commit=commit,
            kind="ingest",
            at=at,
            stream=self._facts.stream,
            created=self._facts.created,
            query=query,
            batch=number,
            first=first,
            last=last,
            add=added,
            counts=batch.counts,
        )
