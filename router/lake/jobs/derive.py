"""The second step of a micro-batch: a task gets all events of some buckets, decides which count,
and writes them.

    events of a bucket, and silver's of that bucket ──> rejects: an identity that is known, or that comes twice ──> duplicates, conflicts
                                               └──────> the rest ──> silver ──> partial sums ──> gold

A bucket is decided by itself, so nothing of it passes the driver, which gets the names of the
files. What is rejected is written once for all buckets of a task: the driver reads the list of all
files for each batch. `find_known`, which stands first, looks up what silver has of a batch.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Iterable, Iterator, Sequence
from datetime import date
from functools import partial
from typing import Any, NamedTuple
from uuid import uuid4

import msgspec
import numpy as np
import numpy.typing as npt
import orjson
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq
from msgspec import Struct

from router.lake.jobs.daily_writer import write_days
from router.lake.jobs.staging import FILES, StagedRange, decode_events, decode_files
from router.lake.tables.arrow import EVENT
from router.lake.tables.event import KEY_COLUMNS, find_identity_buckets, find_rejects
from router.lake.tables.gold import sum_events
from router.lake.tables.gold_columns import GOLD_TABLES
from router.lake.tables.late import assign_windows, compute_lateness, count_late
from router.lake.warehouse.commit import DataFile
from router.lake.warehouse.storage import Storage

# -- The events of silver that have an identity of the batch.
#
# A file is sorted by the first half of the identity, so a lookup is a binary search in one
# column of integers. Each worker process keeps the columns that it read last, up to
# CACHED_BYTES: a continuous ingest asks the same files every few seconds.

# two events of one identity conflict if these differ
CONTENT = ("provider_id", "event_type", "latency_ms", "cost")
ADJUSTMENT_CONTENT = ("adjustment", "adjusts", "budget")  # or these
KNOWN_SCHEMA = pa.schema(
    [EVENT.field(name) for name in (*KEY_COLUMNS, *CONTENT, *ADJUSTMENT_CONTENT)]
)
CACHED_BYTES = 256 * 1024 * 1024

Integers = npt.NDArray[np.int64]


class ColumnCache:
    """Sorted columns by path. Files never change."""

    def __init__(self, most_bytes: int) -> None:
        self._columns: OrderedDict[str, Integers] = OrderedDict()
        self._bytes = 0
        self._most = most_bytes

    def read(self, storage: Storage, path: str) -> Integers:
        place = storage.resolve(path)
        if (kept := self._columns.get(place)) is not None:
            self._columns.move_to_end(place)
            return kept
        column = np.sort(_read_columns(storage, path, ["id_high"])["id_high"].to_numpy())
        self._columns[place] = column
        self._bytes += column.nbytes
        while self._bytes > self._most and len(self._columns) > 1:
            self._bytes -= self._columns.popitem(last=False)[1].nbytes
        return column


_cache = ColumnCache(CACHED_BYTES)


def find_known(storage: Storage, files: Iterable[DataFile], ids: pa.ChunkedArray) -> pa.Table:
    """Return keys and content of the events in these files of silver whose `id_high` is among
    `ids`.
    """
    wanted = np.unique(ids.to_numpy())
    parts = [KNOWN_SCHEMA.empty_table()]
    for file in files:
        hits = _select_present(wanted, _cache.read(storage, file.path))
        if len(hits):
            rows = _read_columns(storage, file.path, KNOWN_SCHEMA.names)
            parts.append(rows.filter(pc.is_in(rows["id_high"], pa.array(hits, pa.int64()))))
    return (
        pa.concat_tables(parts, promote_options="default")
        .select(KNOWN_SCHEMA.names)
        .cast(KNOWN_SCHEMA)
    )  # a file may be older than a column


def _select_present(wanted: Integers, column: Integers) -> Integers:
    if not len(column):
        return column
    places = np.minimum(np.searchsorted(column, wanted), len(column) - 1)
    present: Integers = wanted[column[places] == wanted]
    return present


def _read_columns(storage: Storage, path: str, names: Sequence[str]) -> pa.Table:
    with storage.filesystem.open_input_file(storage.resolve(path)) as source:
        return pq.ParquetFile(source).read(list(names))


# -- The task of a batch.

COMPARED = (*CONTENT, *ADJUSTMENT_CONTENT)
REJECT_COLUMNS = ("seq", "event_id", "first_seq", "time")

FilesByTable = dict[str, list[DataFile]]


class BatchPlan(Struct, frozen=True, kw_only=True):
    """What every task of a batch knows. Spark sends it to the executors."""

    warehouse: str
    # files of silver by bucket, whose identities a new event may have
    known: dict[int, list[DataFile]]
    sealed: frozenset[date]
    revision: int


class TaskResult(Struct, frozen=True, kw_only=True):
    """What a task wrote."""

    added: FilesByTable
    counts: dict[str, int] = {}


class DecidedBucket(NamedTuple):
    """The events of a bucket that count, silver's files of them, and rows of the tables of those
    that do not.
    """

    counting: pa.Table
    silver: list[DataFile]
    duplicates: pa.Table
    conflicts: pa.Table


def finish_task(plan: BatchPlan, rows: Iterable[Any]) -> Iterator[bytes]:
    """Write what the rows of one task hold, and yield TaskResult as JSON, for each range and for
    the events.
    """
    held: list[pa.Table] = []
    for row in rows:
        if row.kind == FILES:
            yield msgspec.json.encode(_tell_range(decode_files(bytes(row.body))))
        else:
            held.append(decode_events(bytes(row.body)))
    if held:
        yield msgspec.json.encode(write_events(plan, pa.concat_tables(held)))


def write_events(plan: BatchPlan, events: pa.Table) -> TaskResult:
    """Write events of any buckets into silver, gold, duplicates and conflicts."""
    # of this attempt of this task: it writes over no other's files
    storage, run = Storage(plan.warehouse), f"batch-{uuid4().hex[:12]}"
    buckets = find_identity_buckets(events)
    decided = [
        _write_bucket(
            storage,
            run,
            events.filter(pc.equal(buckets, bucket)),
            plan.known.get(bucket, ()),
            bucket,
        )
        for bucket in sorted(pc.unique(buckets).to_pylist())
    ]
    rejected = {
        "duplicates": write_days(
            pa.concat_tables([bucket.duplicates for bucket in decided]), storage, "duplicates", run
        ),
        "conflicts": write_days(
            pa.concat_tables([bucket.conflicts for bucket in decided]), storage, "conflicts", run
        ),
    }
    sums = write_sums(
        storage,
        pa.concat_tables([bucket.counting for bucket in decided]),
        plan.sealed,
        plan.revision,
        run,
    )
    added = merge_files([*({"silver": bucket.silver} for bucket in decided), rejected, sums])
    return TaskResult(
        added=added, counts={**_count(decided), **count_late(compute_lateness(events))}
    )


def write_sums(
    storage: Storage, events: pa.Table, sealed: frozenset[date], revision: int, run: str
) -> FilesByTable:
    """Write the events' partial sums into gold."""
    return {
        table: write_table_sums(storage, table, sums, revision, run)
        for table, sums in sum_by_table(events, sealed).items()
    }


def write_table_sums(
    storage: Storage, table: str, sums: pa.Table, revision: int, run: str
) -> list[DataFile]:
    """Write sums into one table of gold."""
    return write_days(
        sums.append_column("revision", pa.repeat(pa.scalar(revision, pa.int64()), len(sums))),
        storage,
        table,
        run,
    )


def sum_by_table(events: pa.Table, sealed: frozenset[date]) -> dict[str, pa.Table]:
    return {
        name: sum_events(assign_windows(events, sealed, table.grain), table.keys)
        for name, table in GOLD_TABLES.items()
    }


def merge_files(parts: Iterable[FilesByTable]) -> FilesByTable:
    whole: FilesByTable = {}
    for part in parts:
        for table, files in part.items():
            whole.setdefault(table, []).extend(files)
    return whole


def sum_counts(parts: Iterable[dict[str, int]]) -> dict[str, int]:
    whole: dict[str, int] = {}
    for part in parts:
        for name, count in part.items():
            whole[name] = whole.get(name, 0) + count
    return whole


def _tell_range(staged: StagedRange) -> TaskResult:
    quarantined = sum(file.rows for file in staged.quarantine)
    return TaskResult(
        added={"bronze": staged.bronze, "quarantine": staged.quarantine},
        counts={"read": staged.messages, "quarantined": quarantined},
    )


def _write_bucket(
    storage: Storage, run: str, events: pa.Table, files: Iterable[DataFile], bucket: int
) -> DecidedBucket:
    """Decide about the events of a bucket, and write those that count. `files`: of silver, of this
    bucket.
    """
    known_rows = find_known(storage, files, events["id_high"])
    rejects = find_rejects(events, known_rows)
    is_rejected = pc.is_in(events["seq"], rejects["seq"].combine_chunks())
    counting, rejected = events.filter(pc.invert(is_rejected)), events.filter(is_rejected)
    firsts = pa.concat_tables(
        [events.select(["seq", *COMPARED]), known_rows.select(["seq", *COMPARED])]
    )
    rows = rejected.join(rejects, "seq").sort_by("seq")
    silver = write_days(counting.sort_by("id_high"), storage, "silver", run, bucket)
    return DecidedBucket(
        counting, silver, rows.filter(pc.invert(rows["is_conflict"])), _make_conflicts(rows, firsts)
    )


def _make_conflicts(rows: pa.Table, firsts: pa.Table) -> pa.Table:
    """Return rows of `conflicts`, with the content of both events."""
    conflicts = rows.filter(rows["is_conflict"])
    contents = _read_contents(
        firsts.filter(pc.is_in(firsts["seq"], conflicts["first_seq"].combine_chunks()))
    )
    both = {
        **{name: conflicts[name] for name in REJECT_COLUMNS},
        "content": pa.array(_read_contents(conflicts).values(), pa.string()),
        "first_content": pa.array(
            [contents[seq] for seq in conflicts["first_seq"].to_pylist()], pa.string()
        ),
    }
    return pa.table(both)


def _count(decided: Iterable[DecidedBucket]) -> dict[str, int]:
    return sum_counts(
        {
            "accepted": len(bucket.counting),
            "duplicates": len(bucket.duplicates),
            "conflicts": len(bucket.conflicts),
        }
        for bucket in decided
    )


def _read_contents(events: pa.Table) -> dict[int, str]:
    """Return each event's content as JSON, by sequence; a cost has the form in which it was summed."""
    return {
        row["seq"]: _encode_content(row) for row in events.select(["seq", *COMPARED]).to_pylist()
    }


def _encode_content(row: dict[str, Any]) -> str:
    corrected = {name: row[name] for name in ADJUSTMENT_CONTENT if row[name] is not None}
    return orjson.dumps(
        {
            **{name: row[name] for name in CONTENT},
            "cost": orjson.Fragment(f"{row['cost']:f}"),
            **corrected,
        }
    ).decode()


def make_task(plan: BatchPlan) -> partial[Iterator[bytes]]:
    """The function that Spark runs on each partition."""
    return partial(finish_task, plan)
