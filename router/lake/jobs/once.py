"""Write each micro-batch into the tables once, in one commit, wherever a process dies.

Why nothing is lost or doubled if the driver dies: messages that the log covers are not read again (the log has their last
sequence), and all others are read again from the same sequences. Spark's number of a batch proves nothing: a power cut may take
its checkpoint, and then another range gets that number. Files that no commit names are part of no table.
"""

from __future__ import annotations

from collections.abc import Callable

from pyspark.sql import DataFrame, SparkSession

from router.crashpoints import crashpoint
from router.errors import Conflict, RouterError
from router.lake.identities import Identities
from router.lake.jobs.aside import discard
from router.lake.jobs.batch import Batch
from router.lake.jobs.landing import Landed
from router.lake.jobs.landing_source import read_landed
from router.lake.source.offset import Facts
from router.lake.warehouse import Commit, Warehouse

ATTEMPTS = 3  # to commit a batch: a seal or a compaction may commit first

Told = Callable[[Commit], None]


class Writing:
    """The function that Spark calls with each micro-batch."""

    def __init__(self, warehouse: Warehouse, facts: Facts, following: int, told: Told) -> None:
        self._warehouse = warehouse
        self._identities = Identities(warehouse)
        self._facts = facts
        self._following = following
        self._told = told
        self.error: RouterError | None = None

    def batch(self, frame: DataFrame, number: int) -> None:
        try:
            self._batch(frame, number)
        except RouterError as exc:
            self.error = exc  # Spark passes on its text only
            raise

    def _batch(self, frame: DataFrame, number: int) -> None:
        spark = frame.sparkSession
        query = str(spark.sparkContext.getLocalProperty("sql.streaming.queryId"))
        landed = [read_landed(row.landed) for row in frame.collect()]
        crashpoint("lake_after_read")
        if fresh := [one for one in landed if one.last >= self._following]:
            self._told(self._committed(spark, fresh, query, number))
        for one in landed:
            discard(self._warehouse, one.aside)
        crashpoint("lake_before_checkpoint")

    def _committed(self, spark: SparkSession, landed: list[Landed], query: str, number: int) -> Commit:
        for _ in range(ATTEMPTS - 1):
            try:
                return self._once(spark, landed, query, number)
            except Conflict:
                continue
        return self._once(spark, landed, query, number)

    def _once(self, spark: SparkSession, landed: list[Landed], query: str, number: int) -> Commit:
        batch = Batch(spark, self._warehouse, self._identities, landed)
        batch.derive()
        crashpoint("lake_after_write")
        commit = self._warehouse.append(lambda at, time: self._commit(batch, at, time, query, number), after=batch.after)
        self._following = max(self._following, (commit.last or 0) + 1)
        crashpoint("lake_after_commit")
        return commit

    def _commit(self, batch: Batch, commit: int, at: str, query: str, number: int) -> Commit:
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
