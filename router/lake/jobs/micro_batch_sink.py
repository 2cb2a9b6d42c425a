"""Write each micro-batch into the tables once, wherever a process dies, also beside other writers (`commits` says why).

Progress is silver's: Spark's checkpoint and its number of a batch prove nothing. Files that no commit names are part of no table.
"""

from __future__ import annotations

import time
from collections import defaultdict
from collections.abc import Callable

import msgspec
from pyspark.sql import DataFrame

from router.core.crashpoints import crashpoint
from router.lake.jobs.commits import commit_batch
from router.lake.jobs.derive import BatchPlan, TaskResult, make_task, merge_files, sum_counts
from router.lake.source.offset import StreamState
from router.lake.tables.late import list_sealed_days
from router.lake.warehouse import Cut, DataFile, Progress, Warehouse

CutCallback = Callable[[Cut], None]


class MicroBatchSink:
    """The function that Spark calls with each micro-batch. `tasks`: of the second step."""

    def __init__(self, warehouse: Warehouse, facts: StreamState, tasks: int, on_cut: CutCallback) -> None:
        self._warehouse = warehouse
        self._facts = facts
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
        parted = frame.repartitionById(self._tasks, frame["task"]).rdd.mapPartitions(make_task(plan))
        results = [msgspec.json.decode(one, type=TaskResult) for one in parted.collect()]
        crashpoint("lake_after_write")
        added = merge_files(one.added for one in results)
        if (progress := self._find_progress(added.get("bronze", []))) is None:
            return
        cut = commit_batch(self._warehouse, progress, added, plan.sealed, sum_counts(one.counts for one in results))
        crashpoint("lake_after_commit")
        if cut is not None:
            self._on_cut(cut)

    def _plan(self) -> BatchPlan:
        """Look at the tables as they are now: what is committed later shows when this batch is."""
        known: defaultdict[int, list[DataFile]] = defaultdict(list)
        recent = self._list_recent()
        for file in self._warehouse.tables["silver"].list_files():
            if (file.max_seq or 0) >= self._facts.first or file.path in recent:
                known[file.bucket or 0].append(file)
        return BatchPlan(
            warehouse=self._warehouse.location,
            known=dict(known),
            sealed=list_sealed_days(self._warehouse.seals()),
            revision=self._warehouse.head() + 1,
        )

    def _list_recent(self) -> set[str]:
        """Silver's files that may hold messages which the stream would still have, if nothing had trimmed it."""
        age_s = self._facts.max_age_s
        return self._warehouse.tables["silver"].list_recent(round((time.time() - age_s) * 1000)) if age_s else set()

    def _find_progress(self, bronze: list[DataFile]) -> Progress | None:
        """The sequences of the batch; None if there was no message."""
        if not bronze:
            return None
        first, last = min(file.min_seq or 0 for file in bronze), max(file.max_seq or 0 for file in bronze)
        return Progress(stream=self._facts.stream, created=self._facts.created, first=first, last=last)
