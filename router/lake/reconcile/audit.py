"""Look at all of silver for identities that count more than once, on whatever days and however far
apart they came.

    a file of silver ── identity, sequence, content, cost, day ──> Spark shuffles by identity ──> a task counts its own

The ingest decides within the stream's retention. What comes again later counts again, and this job
finds it.
"""

from __future__ import annotations

from collections.abc import Iterator
from functools import partial
from math import ceil

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq
from msgspec import Struct
from pyspark.sql import SparkSession

from router.lake.reconcile.comparison import NAMED, Sent, run_comparison, split_rows
from router.lake.reconcile.sums import format_money, sum_exactly
from router.lake.warehouse import DataFile, Warehouse
from router.lake.warehouse.storage import Storage

ROWS_PER_TASK = 500_000
_ROWS = pa.schema(
    [(name, pa.int64()) for name in ("seq", "id_high", "id_low", "content")]
    + [("cost", pa.decimal128(38, 9)), ("day", pa.string())]
)
_ID = ["id_high", "id_low"]


class RepeatedIdentity(Struct, frozen=True):
    """An identity that counts more than once."""

    event_id: str
    sequences: tuple[int, ...]  # rising
    days: tuple[str, ...]  # of each of them
    is_conflict: bool  # not all have the same content


class AuditFound(Struct, frozen=True, kw_only=True):
    """Sums over all identities. `cost_too_much`: of all but the first event of each, whole 1e-9."""

    events: int
    identities: int
    repeated: int
    conflicts: int
    cost_too_much: int
    first: tuple[RepeatedIdentity, ...]

    @property
    def is_right(self) -> bool:
        return not self.repeated

    def to_json(self) -> dict[str, object]:
        return {
            "events": self.events,
            "identities": self.identities,
            "counted_too_often": self.events - self.identities,
            "repeated": self.repeated,
            "conflicts": self.conflicts,
            "cost_too_much": format_money(self.cost_too_much),
            "first": [
                {
                    "event_id": identity.event_id,
                    "sequences": list(identity.sequences),
                    "days": list(identity.days),
                    "is_conflict": identity.is_conflict,
                }
                for identity in self.first
            ],
        }


def audit(spark: SparkSession, warehouse: Warehouse) -> AuditFound:
    """Run over silver as of the newest cut."""
    files = warehouse.files("silver")
    tasks = max(
        spark.sparkContext.defaultParallelism,
        ceil(sum(file.rows for file in files) / ROWS_PER_TASK),
    )
    parts = run_comparison(
        spark, files, partial(read_identities, warehouse.location, tasks), tasks, count_repeated
    )
    return AuditFound(
        events=sum(part.events for part in parts),
        identities=sum(part.identities for part in parts),
        repeated=sum(part.repeated for part in parts),
        conflicts=sum(part.conflicts for part in parts),
        cost_too_much=sum(part.cost_too_much for part in parts),
        first=tuple(
            sorted(
                (identity for part in parts for identity in part.first),
                key=lambda identity: identity.sequences,
            )[:NAMED]
        ),
    )


def read_identities(warehouse: str, tasks: int, file: DataFile) -> Iterator[Sent]:
    """Send each event of a file to the task of its identity."""
    storage = Storage(warehouse)
    names = ["seq", "id_high", "id_low", "content", "cost"]
    rows = pq.read_table(storage.resolve(file.path), columns=names, filesystem=storage.filesystem)
    rows = rows.append_column("day", pa.repeat(file.day or "", len(rows))).cast(_ROWS)
    yield from split_rows(
        "silver", rows, rows["id_low"].to_numpy().view(np.uint64) % np.uint64(tasks)
    )


def count_repeated(_: int, sent: dict[str, list[pa.Table]]) -> AuditFound:
    """Count the identities of one task."""
    rows = pa.concat_tables([_ROWS.empty_table(), *sent.get("silver", [])])
    counted = rows.group_by(_ID).aggregate([([], "count_all"), ("seq", "min")])
    many = counted.filter(pc.greater(counted["count_all"], 1)).select([*_ID, "seq_min"])
    again = rows.join(many, _ID, join_type="inner").sort_by(
        [(name, "ascending") for name in (*_ID, "seq")]
    )
    contents = again.group_by(_ID).aggregate([("content", "count_distinct")])
    return AuditFound(
        events=len(rows),
        identities=len(counted),
        repeated=len(many),
        conflicts=pc.sum(pc.greater(contents["content_count_distinct"], 1)).as_py() or 0,
        cost_too_much=sum_exactly(again.filter(_follow_same(again))["cost"]),
        first=tuple(_list_first(again)),
    )


def _follow_same(rows: pa.Table) -> pa.Array:
    """Whether the row before has the same identity."""
    numbers = [rows[name].to_numpy() for name in _ID]
    same = np.logical_and.reduce([column[1:] == column[:-1] for column in numbers])
    return pa.array(np.concatenate([np.zeros(min(1, len(rows)), bool), same]))


def _list_first(again: pa.Table) -> Iterator[RepeatedIdentity]:
    """Yield those that came first."""
    firsts = pc.unique(again["seq_min"]).sort()[:NAMED]
    rows = (
        again.filter(pc.is_in(again["seq_min"], firsts))
        .sort_by([("seq_min", "ascending"), ("seq", "ascending")])
        .to_pylist()
    )
    for first in firsts.to_pylist():
        same = [row for row in rows if row["seq_min"] == first][:NAMED]
        yield RepeatedIdentity(
            event_id=_format_id(same[0]["id_high"], same[0]["id_low"]),
            sequences=tuple(row["seq"] for row in same),
            days=tuple(row["day"] for row in same),
            is_conflict=len({row["content"] for row in same}) > 1,
        )


def _format_id(high: int, low: int) -> str:
    return (
        "usage:" + b"".join(half.to_bytes(8, "little", signed=True) for half in (high, low)).hex()
    )
