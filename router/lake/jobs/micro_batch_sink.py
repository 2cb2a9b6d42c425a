"""Write each micro-batch into the tables once, wherever a process dies, also beside other writers
(`commits` says why).

Progress is silver's: Spark's checkpoint and its number of a batch prove nothing. Files that no
commit names are part of no table.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable

import msgspec
from pyspark.sql import DataFrame

from router.core.clock import wall
from router.core.crashpoints import crashpoint
from router.lake.jobs.commits import commit_batch
from router.lake.jobs.derive import BatchPlan, TaskResult, make_task, merge_files, sum_counts
from router.lake.jobs.stream_history import StreamHistory
from router.lake.source.offset import StreamState
from router.lake.tables.late import list_sealed_days
from router.lake.warehouse import Cut, DataFile, Progress, Warehouse
from router.lake.warehouse.commit import name_application

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
        results = [msgspec.json.decode(one, type=TaskResult) for one in parted.collect()]
        crashpoint("lake_after_write")
        added = merge_files(one.added for one in results)
        if (progress := self._find_progress(added.get("bronze", []))) is None:
            return
        cut = commit_batch(
            self._warehouse, progress, added, plan.sealed, sum_counts(one.counts for one in results)
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
        known: defaultdict[int, list[DataFile]] = defaultdict(list)
        for file in files:
            if (file.max_seq or 0) >= reading.facts.first or file.path in recent:
                known[file.bucket or 0].append(file)
        return dict(known)

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
