"""Check that silver holds each identity once within its (day, bucket), and that the numbers by which it is deduplicated are the identity's.

That an identity stands on two days can only be seen by a look at all of silver: `router usage audit`.
"""

from __future__ import annotations

from collections import defaultdict
from functools import partial

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq
from msgspec import Struct
from pyspark.sql import SparkSession

from router.lake.reconcile.checks import NAMED, ReconcileCheck, name_first
from router.lake.reconcile.shuffle import SLICES_PER_TASK
from router.lake.reconcile.snapshot import WarehouseSnapshot
from router.lake.warehouse import DataFile
from router.lake.warehouse.storage import Storage

IDENTITY_CHECK = "identities in silver"


class IdentitiesFound(Struct, frozen=True):
    """Of one (day, bucket). `doubled`: events beyond the first of their identity; `misplaced`: with other numbers, or in another bucket."""

    events: int
    doubled: int
    misplaced: int
    names: tuple[str, ...]


def check_identities(spark: SparkSession, tables: WarehouseSnapshot) -> ReconcileCheck:
    places: defaultdict[tuple[str | None, int | None], list[DataFile]] = defaultdict(list)
    for file in tables.list_files("silver"):
        places[file.day, file.bucket].append(file)
    context = spark.sparkContext
    slices = max(1, min(len(places), SLICES_PER_TASK * context.defaultParallelism))
    found = context.parallelize(list(places.values()), slices).map(partial(count_identities, tables.warehouse.location)).collect()
    events, doubled, misplaced = (sum(getattr(one, name) for one in found) for name in ("events", "doubled", "misplaced"))
    names = sorted(one for part in found for one in part.names)[:NAMED]
    figures = {"events": events, "doubled": doubled, "misplaced": misplaced}
    says = f"{events} events, {doubled} doubled on their day, {misplaced} under another identity's numbers"
    return ReconcileCheck(IDENTITY_CHECK, not doubled and not misplaced, says, figures, names)


def count_identities(warehouse: str, files: list[DataFile]) -> IdentitiesFound:
    """Read one (day, bucket)."""
    storage = Storage(warehouse)
    names = ["event_id", "id_high", "id_low"]
    rows = pa.concat_tables(pq.read_table(storage.resolve(file.path), columns=names, filesystem=storage.filesystem) for file in files)
    counted = rows.group_by("event_id").aggregate([([], "count_all")])
    repeated = counted.filter(pc.greater(counted["count_all"], 1))
    misplaced = rows.filter(pc.invert(_have_own_numbers(rows)))
    wrong = sorted({*repeated["event_id"].to_pylist(), *misplaced["event_id"].to_pylist()})
    return IdentitiesFound(len(rows), len(rows) - len(counted), len(misplaced), name_first(wrong))


def _have_own_numbers(rows: pa.Table) -> pa.Array:
    """Whether `id_high` and `id_low` are the digits of the identity's text."""
    ids = rows["event_id"].to_pylist()
    high, low = (
        pa.array([int.from_bytes(bytes.fromhex(one[part]), "little", signed=True) for one in ids], pa.int64())
        for part in (slice(6, 22), slice(22, None))
    )
    return pc.and_(pc.equal(rows["id_high"], high), pc.equal(rows["id_low"], low))
