"""A comparison: run as a Spark job, by the key of its rows, and what it found as the checks of a
reconciliation.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from functools import partial
from itertools import islice
from typing import Any, TypeVar
from zlib import crc32

import numpy as np
import numpy.typing as npt
import pyarrow as pa
from msgspec import Struct
from pyspark.sql import SparkSession

NAMED = 20  # how many sequences, ids or groups a failed check names


class ReconcileCheck(Struct, frozen=True):
    """One equation. `is_right` None: the check could not run, and `says` gives the reason."""

    name: str
    is_right: bool | None
    says: str
    figures: Mapping[str, object] = {}
    ids: Sequence[str] = ()  # sequences, event ids or groups that break it; the first ones

    @property
    def verdict(self) -> str:
        return {True: "ok", False: "differs", None: "skipped"}[self.is_right]


class Reconciliation(Struct, frozen=True):
    checks: Sequence[ReconcileCheck]

    @property
    def is_right(self) -> bool:
        """No check differs. A skipped check proves nothing, and breaks nothing."""
        return all(check.is_right is not False for check in self.checks)

    def to_json(self) -> dict[str, object]:
        checks = [
            {
                "name": check.name,
                "verdict": check.verdict,
                "says": check.says,
                **check.figures,
                "ids": list(check.ids),
            }
            for check in self.checks
        ]
        return {"agrees": self.is_right, "checks": checks}


def name_first(ids: Iterable[object]) -> tuple[str, ...]:
    """Return the first NAMED of them as text."""
    return tuple(str(identity) for identity in islice(ids, NAMED))


# -- Run a comparison as a Spark job: each source is read by a task, its rows go to the task of
# their key, which compares both sides.
#
# sources ── read ──> (task, name, rows) ── Spark shuffles ──> one task for each key range ── compare ──> what was found, small
#
# So no task holds more than a file and a key range, and the driver holds nothing that grows with
# the events.


Found = TypeVar("Found")
Source = TypeVar("Source")
# the task that gets them, what the rows are, the rows as Arrow's bytes
Sent = tuple[int, str, bytes]
Keyed = tuple[int, tuple[str, bytes]]  # the same as Spark wants it
Read = Callable[[Source], Iterator[Sent]]
Compare = Callable[[int, dict[str, list[pa.Table]]], Found]
Integers = npt.NDArray[np.int64]

# tasks of the first step for each one that runs at once: a slice reads its sources one after the
# other
SLICES_PER_TASK = 8


def run_comparison(
    spark: SparkSession,
    sources: Sequence[Source],
    read: Read[Source],
    tasks: int,
    compare: Compare[Found],
) -> list[Found]:
    """Return what each of the `tasks` of the second step found; a task without rows compares, too."""
    return compare_rows(send_rows(spark, sources, read), tasks, compare)


def send_rows(spark: SparkSession, sources: Sequence[Source], read: Read[Source]) -> Any:
    """Return Spark's RDD of the rows that the sources have, each with its task."""
    context = spark.sparkContext
    slices = max(1, min(len(sources), SLICES_PER_TASK * context.defaultParallelism))
    return context.parallelize(sources, slices).flatMap(partial(_send, read))


def send_again(sent: Any, tasks: int, change: Compare[list[Sent]]) -> Any:
    """Return Spark's RDD of what `change` makes of each task's rows, each with its next task."""
    return sent.partitionBy(tasks, _identity).mapPartitionsWithIndex(partial(_change, change))


def compare_rows(sent: Any, tasks: int, compare: Compare[Found]) -> list[Found]:
    parts: list[Found] = (
        sent.partitionBy(tasks, _identity)
        .mapPartitionsWithIndex(partial(_compare, compare))
        .collect()
    )
    return parts


def split_rows(name: str, rows: pa.Table, tasks: Integers) -> Iterator[Sent]:
    """Yield the rows by the task of each."""
    for task in np.unique(tasks).tolist():
        yield task, name, encode_table(rows.filter(pa.array(tasks == task)))


def hash_groups(columns: Iterable[Sequence[object]], tasks: int) -> Integers:
    """Return the task of each group, the same in every process."""
    texts = ("\0".join(map(str, group)) for group in zip(*columns, strict=True))
    return np.fromiter((crc32(text.encode()) % tasks for text in texts), np.int64)


def encode_table(rows: pa.Table) -> bytes:
    sink = pa.BufferOutputStream()
    with pa.ipc.new_stream(
        sink, rows.schema, options=pa.ipc.IpcWriteOptions(compression="lz4")
    ) as writer:
        writer.write_table(rows)
    return bytes(sink.getvalue())


def _send(read: Read[Source], source: Source) -> Iterator[Keyed]:
    for task, name, body in read(source):
        yield task, (name, body)


def _change(change: Compare[list[Sent]], task: int, rows: Iterable[Keyed]) -> Iterator[Keyed]:
    for following, name, body in change(task, _decode(rows)):
        yield following, (name, body)


def _compare(compare: Compare[Found], task: int, rows: Iterable[Keyed]) -> Iterator[Found]:
    yield compare(task, _decode(rows))


def _decode(rows: Iterable[Keyed]) -> dict[str, list[pa.Table]]:
    held: defaultdict[str, list[pa.Table]] = defaultdict(list)
    for _, (name, body) in rows:
        held[name].append(pa.ipc.open_stream(body).read_all())
    return held


def _identity(task: int) -> int:
    return task
