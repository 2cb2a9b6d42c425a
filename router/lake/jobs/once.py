"""Each micro-batch into the tables once, in one commit, whatever dies meanwhile.

Why nothing is lost and nothing doubled, whenever the driver dies: a batch that is in the log is not done again (Spark's own
number of it, and the last sequence in the log, both tell), and one that is not is read again from the same sequences. Files
that no commit names are no part of any table.
"""

from __future__ import annotations

from collections.abc import Callable

from pyspark.sql import DataFrame
from pyspark.sql import functions as f

from router.crashpoints import crashpoint
from router.errors import Conflict, RouterError
from router.lake.jobs.batch import Batch
from router.lake.source.offset import Facts
from router.lake.warehouse import Commit, Warehouse

ATTEMPTS = 3  # at a batch, when a seal or a compaction was committed meanwhile

Told = Callable[[Commit], None]


class Writing:
    """What Spark calls with each micro-batch."""

    def __init__(self, warehouse: Warehouse, facts: Facts, following: int, told: Told) -> None:
        self._warehouse = warehouse
        self._facts = facts
        self._following = following
        self._told = told
        self.error: RouterError | None = None

    def batch(self, frame: DataFrame, number: int) -> None:
        try:
            self._batch(frame, number)
        except RouterError as exc:
            self.error = exc  # Spark hands on a text only
            raise

    def _batch(self, frame: DataFrame, number: int) -> None:
        query = str(frame.sparkSession.sparkContext.getLocalProperty("sql.streaming.queryId"))
        if not self._is_done(query, number):
            self._told(self._committed(frame, query, number))
        crashpoint("lake_before_checkpoint")

    def _is_done(self, query: str, number: int) -> bool:
        return any(one.query == query and one.batch == number for one in reversed(self._warehouse.commits()))

    def _committed(self, frame: DataFrame, query: str, number: int) -> Commit:
        for _ in range(ATTEMPTS - 1):
            try:
                return self._once(frame, query, number)
            except Conflict:
                continue
        return self._once(frame, query, number)

    def _once(self, frame: DataFrame, query: str, number: int) -> Commit:
        batch = Batch(frame.sparkSession, self._warehouse, f"ingest-{number:08d}")
        batch.read(frame.where(f.col("seq") >= self._following))
        crashpoint("lake_after_read")
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
