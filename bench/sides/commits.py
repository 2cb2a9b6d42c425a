"""What the driver does for a micro-batch, without Spark, stream and tasks: it plans by silver's
files, and commits what tasks named.

The files are described and not written: a commit reads none of them.
"""

from __future__ import annotations

import asyncio
import os
from collections import defaultdict
from collections.abc import Sequence
from pathlib import Path
from uuid import uuid4

from msgspec.structs import replace

from bench.child import Ready
from bench.family import used_alone
from bench.question import Measured
from router.lake.jobs import maintenance
from router.lake.jobs.commits import commit_batch
from router.lake.jobs.derive import FilesByTable
from router.lake.jobs.ingest import MicroBatchSink
from router.lake.source.offset import StreamState
from router.lake.tables.event import BUCKETS
from router.lake.tables.gold_columns import GOLD_TABLES
from router.lake.warehouse import DataFile, Progress, Warehouse

BATCH = 50_000  # events of a micro-batch
TASKS = 2
BATCHES_PER_DAY = 20
MEASURED = 20  # micro-batches: each table has one checkpoint in so many
FACTS = StreamState("ROUTER_USAGE", "2026-11-01T00:00:00Z", 1, 0, 0, 0)


async def commit(ready: Ready, *, home: str, history: int, is_compacted: bool = False) -> Measured:
    """Commit so many events first, and then measure some micro-batches more. `is_compacted`: the
    tables are, after each day.
    """

    def whole() -> Measured:
        warehouse, before = Warehouse(str(Path(home) / "tables")), history // BATCH
        sink = MicroBatchSink(warehouse, FACTS, TASKS, lambda _: None)
        for number in range(before):
            _commit(warehouse, sink, number)
            if is_compacted and number % BATCHES_PER_DAY == BATCHES_PER_DAY - 1:
                _compact(warehouse)
        files = sum(
            len(table.list_files()) for table in (*warehouse.tables.values(), warehouse.cut_table)
        )
        begun = used_alone(os.getpid())
        for number in range(before, before + MEASURED):
            _commit(warehouse, sink, number)
        ended = used_alone(os.getpid())
        return {
            "cpu_ms": (ended.cpu_s - begun.cpu_s) / MEASURED * 1e3,
            "peak_mib": ended.peak_mib,
            "files": files,
        }

    return await asyncio.to_thread(whole)


def _commit(warehouse: Warehouse, sink: MicroBatchSink, number: int) -> None:
    sink._plan()
    first, last = number * BATCH + 1, (number + 1) * BATCH
    progress = Progress(stream=FACTS.stream, created=FACTS.created, first=first, last=last)
    commit_batch(warehouse, progress, _describe(number, first, last), frozenset(), {"read": BATCH})


def _compact(warehouse: Warehouse) -> None:
    """Commit what `router usage compact` commits: the files described here have no rows to merge,
    but those of the cuts have.
    """
    for table in warehouse.tables.values():
        table.rewrite(lambda _, files: _merge(files))
    maintenance._compact_table(warehouse.cut_table)


def _merge(files: Sequence[DataFile]) -> tuple[list[DataFile], list[DataFile]]:
    """Files of a day and bucket, and the one that stands for them."""
    parts: defaultdict[tuple[str | None, int | None], list[DataFile]] = defaultdict(list)
    for file in files:
        parts[file.day, file.bucket].append(file)
    many = [part for part in parts.values() if len(part) > 1]
    return [file for part in many for file in part], [_merge_part(part) for part in many]


def _merge_part(part: Sequence[DataFile]) -> DataFile:
    first, last = part[0], part[-1]
    return replace(
        first,
        path=f"{first.path.rpartition('/')[0]}/compacted-{uuid4().hex[:12]}.parquet",
        max_seq=last.max_seq,
    )


def _describe(number: int, first: int, last: int) -> FilesByTable:
    """Name the files that two tasks write of a day's events."""
    day = f"2026-11-{1 + number // BATCHES_PER_DAY % 28:02d}"

    def file(table: str, bucket: int | None = None, *, has_sequences: bool = True) -> DataFile:
        place = f"{table}/day={day}" + ("" if bucket is None else f"/bucket={bucket}")
        ends = (first, last) if has_sequences else (None, None)
        name = f"{place}/batch-{uuid4().hex[:12]}-0.parquet"
        return DataFile(
            path=name,
            rows=1,
            bytes=1_000_000,
            min_seq=ends[0],
            max_seq=ends[1],
            day=day,
            bucket=bucket,
        )

    return {
        "bronze": [file("bronze") for _ in range(TASKS)],
        "quarantine": [file("quarantine") for _ in range(TASKS)],
        "duplicates": [file("duplicates") for _ in range(TASKS)],
        "silver": [file("silver", bucket) for bucket in range(BUCKETS)],
        **{
            table: [file(table, has_sequences=False) for _ in range(TASKS)] for table in GOLD_TABLES
        },
    }
