"""Run all the checks, one after the other, over the warehouse as it is when they begin.

The check of identities stands here itself, the others in modules of their own.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Iterator, Sequence
from functools import partial
from typing import TYPE_CHECKING

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq
from msgspec import Struct
from pyspark.sql import SparkSession

from router.lake.reconcile.budgets import BUDGETS_CHECK, check_budgets
from router.lake.reconcile.comparison import (
    NAMED,
    SLICES_PER_TASK,
    ReconcileCheck,
    Reconciliation,
    name_first,
)
from router.lake.reconcile.messages import check_messages
from router.lake.reconcile.results import RESULTS_CHECK, check_results
from router.lake.reconcile.stream import WarehouseSnapshot, refuse_other_stream
from router.lake.reconcile.sums import check_sums
from router.lake.warehouse import DataFile, Warehouse
from router.lake.warehouse.storage import Storage

if TYPE_CHECKING:
    from router.budgets.spent_documents import BudgetSum
    from router.lake.reconcile.results import ResultStreams
    from router.lake.reconcile.stream import OpenStream

# -- All the checks.


def reconcile(
    spark: SparkSession,
    warehouse: Warehouse,
    stream: OpenStream | None = None,
    streams: ResultStreams | None = None,
    *,
    budget_sums: Sequence[BudgetSum] | None = None,
    on_check: Callable[[str], None] = lambda _: None,
) -> Reconciliation:
    """`stream`: usage in the broker, None if it cannot be reached; `settled`: what is settled of
    budgets, likewise. `on_check` gets the name of the next check.
    """
    tables = WarehouseSnapshot(warehouse, warehouse.head())
    if stream is not None:
        refuse_other_stream(tables, stream)
    return Reconciliation(
        list(
            _run_checks(spark, tables, stream, streams, budget_sums=budget_sums, on_check=on_check)
        )
    )


def _run_checks(
    spark: SparkSession,
    tables: WarehouseSnapshot,
    stream: OpenStream | None,
    streams: ResultStreams | None,
    *,
    budget_sums: Sequence[BudgetSum] | None,
    on_check: Callable[[str], None],
) -> Iterator[ReconcileCheck]:
    on_check("messages")
    yield from check_messages(spark, tables, stream)
    on_check("identities")
    yield check_identities(spark, tables)
    on_check("sums")
    yield from check_sums(spark, tables)
    on_check("results")
    if streams is None:
        yield ReconcileCheck(RESULTS_CHECK, None, "there are no results to be asked")
    else:
        yield check_results(spark, tables, streams)
    on_check("budgets")
    if budget_sums is None:
        yield ReconcileCheck(BUDGETS_CHECK, None, "the budgets cannot be read")
    else:
        yield check_budgets(spark, tables, budget_sums)


# -- The check of identities: silver holds each one once within its (day, bucket), and the
# numbers by which it is deduplicated are the identity's. That an identity stands on two days
# can only be seen by a look at all of silver: `router usage audit`.

IDENTITY_CHECK = "identities in silver"


class IdentitiesFound(Struct, frozen=True):
    """Of one (day, bucket). `doubled`: events beyond the first of their identity; `misplaced`: with
    other numbers, or in another bucket.
    """

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
    parts = (
        context.parallelize(list(places.values()), slices)
        .map(partial(count_identities, tables.warehouse.location))
        .collect()
    )
    events, doubled, misplaced = (
        sum(getattr(part, name) for part in parts) for name in ("events", "doubled", "misplaced")
    )
    names = sorted(name for part in parts for name in part.names)[:NAMED]
    figures = {"events": events, "doubled": doubled, "misplaced": misplaced}
    says = (
        f"{events} events, {doubled} doubled on their day, {misplaced} under another "
        "identity's numbers"
    )
    return ReconcileCheck(IDENTITY_CHECK, not doubled and not misplaced, says, figures, names)


def count_identities(warehouse: str, files: list[DataFile]) -> IdentitiesFound:
    """Read one (day, bucket)."""
    storage = Storage(warehouse)
    names = ["event_id", "id_high", "id_low"]
    rows = pa.concat_tables(
        pq.read_table(storage.resolve(file.path), columns=names, filesystem=storage.filesystem)
        for file in files
    )
    counted = rows.group_by("event_id").aggregate([([], "count_all")])
    repeated = counted.filter(pc.greater(counted["count_all"], 1))
    misplaced = rows.filter(pc.invert(_have_own_numbers(rows)))
    wrong = sorted({*repeated["event_id"].to_pylist(), *misplaced["event_id"].to_pylist()})
    return IdentitiesFound(len(rows), len(rows) - len(counted), len(misplaced), name_first(wrong))


def _have_own_numbers(rows: pa.Table) -> pa.Array:
    """Whether `id_high` and `id_low` are the digits of the identity's text."""
    ids = rows["event_id"].to_pylist()
    high, low = (
        pa.array(
            [
                int.from_bytes(bytes.fromhex(identity[part]), "little", signed=True)
                for identity in ids
            ],
            pa.int64(),
        )
        for part in (slice(6, 22), slice(22, None))
    )
    return pc.and_(pc.equal(rows["id_high"], high), pc.equal(rows["id_low"], low))
