"""Compare what is settled of budgets, read first, with silver: the same events, and the same cost
to the last decimal.

A window is by the time at which the usage stream stored an event, as the settlement counts it. What
is marked, because its assignment is not known, counts in none; an adjustment that names a budget
counts in that one alone. By which policy was decided stands in the header of the event, so a budget
of a policy looks into bronze as well. Not compared: a window that is ahead of the tables, that
began before them, from which something was removed on purpose, or into which events of another
usage stream than the tables' are counted.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence
from functools import partial

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq
from msgspec.structs import replace
from pyspark.sql import SparkSession

from router.budgets.model.reservation import RESERVATION_HEADER, read_reservation
from router.budgets.spent_documents import BudgetSum, read_budget_sums
from router.contracts.money import format_nanos
from router.lake.files import read_files
from router.lake.reconcile.comparison import (
    ReconcileCheck,
    Sent,
    name_first,
    run_comparison,
    split_rows,
)
from router.lake.reconcile.stream import WarehouseSnapshot
from router.lake.reconcile.sums import sum_exactly
from router.lake.source.broker import Broker
from router.lake.source.options import SourceOptions
from router.lake.warehouse import DataFile
from router.lake.warehouse.storage import Storage

BUDGETS_CHECK = "budgets settled = silver"
MICROS = 1_000_000
_COLUMNS = ("seq", "tenant_id", "provider_id", "cost", "time", "correlated", "budget")

Found = dict[int, tuple[int, int]]  # nanos and events, by the place of the sum


def check_budgets(
    spark: SparkSession, tables: WarehouseSnapshot, budget_sums: Sequence[BudgetSum]
) -> ReconcileCheck:
    """Check every window whose events all are in the tables."""
    ingested = tables.warehouse.last_progress()
    last, created = (ingested.last, ingested.created) if ingested is not None else (0, "")
    comparable = [
        budget_sum
        for budget_sum in budget_sums
        if budget_sum.created == created and not budget_sum.is_mixed
    ]
    sums = [
        replace(budget_sum, complete=min(budget_sum.complete, last))
        for budget_sum in comparable
        if budget_sum.through <= last and _is_whole(tables, budget_sum)
    ]
    if not sums:
        return ReconcileCheck(
            BUDGETS_CHECK, None, f"there are no budgets to be compared, of {len(budget_sums)}"
        )
    sources = [("silver", file) for file in tables.list_files("silver")]
    if any(budget_sum.policy_id is not None for budget_sum in sums):
        sources += [("bronze", file) for file in tables.list_files("bronze")]
    tasks = max(1, spark.sparkContext.defaultParallelism)
    parts = run_comparison(
        spark,
        sources,
        partial(_read, tables.warehouse.location, sums, tasks),
        tasks,
        partial(_sum_task, sums),
    )
    return _tell(sums, _add(parts), len(budget_sums) - len(sums))


def _is_whole(tables: WarehouseSnapshot, budget_sum: BudgetSum) -> bool:
    removals = tables.warehouse.removals.list_all()
    if any(
        removal.kind == "retention" or removal.is_of(budget_sum.tenant_id) for removal in removals
    ):
        return False
    return _find_first(tables) < budget_sum.starts_s * MICROS or _find_first_sequence(tables) <= 1


def _find_first_sequence(tables: WarehouseSnapshot) -> int:
    return min(
        (file.min_seq for file in tables.list_files("bronze") if file.min_seq is not None),
        default=0,
    )


def _find_first(tables: WarehouseSnapshot) -> int:
    """When the oldest message of the tables was stored, microseconds."""
    files = [file for file in tables.list_files("bronze") if file.min_seq is not None]
    if not files:
        return 0
    first = min(files, key=lambda file: file.min_seq or 0)
    return int(
        pc.min(
            _read_columns(tables.warehouse.location, first, ["time"])["time"].cast(pa.int64())
        ).as_py()
    )


def _read(
    warehouse: str, sums: Sequence[BudgetSum], tasks: int, source: tuple[str, DataFile]
) -> Iterator[Sent]:
    name, file = source
    if name == "silver":
        rows = read_files(Storage(warehouse), "silver", [file], _COLUMNS)
        rows = rows.filter(
            pc.is_in(
                rows["tenant_id"], pa.array(sorted({budget_sum.tenant_id for budget_sum in sums}))
            )
        )
        rows = rows.filter(pc.fill_null(rows["correlated"], True))
        rows = rows.set_column(
            rows.schema.get_field_index("time"),
            "time",
            rows["time"].cast(pa.timestamp("us", "UTC")).cast(pa.int64()),
        )
    else:
        rows = _read_policies(warehouse, file)
    yield from split_rows(name, rows, rows["seq"].to_numpy() % tasks)


def _read_policies(warehouse: str, file: DataFile) -> pa.Table:
    """By which policy was decided, for the events that say it."""
    rows = _read_columns(warehouse, file, ["seq", "headers"])
    said = (
        (seq, _read_policy(headers))
        for seq, headers in zip(rows["seq"].to_pylist(), rows["headers"].to_pylist(), strict=True)
    )
    kept = [(seq, policy) for seq, policy in said if policy is not None]
    return pa.table(
        {
            "seq": pa.array([seq for seq, _ in kept], pa.int64()),
            "policy_id": pa.array([policy_id for _, policy_id in kept], pa.string()),
        }
    )


def _read_policy(headers: Sequence[tuple[str, str]] | None) -> str | None:
    reservation = read_reservation(dict(headers or ()).get(RESERVATION_HEADER))
    return reservation.policy_id if reservation is not None else None


def _read_columns(warehouse: str, file: DataFile, columns: list[str]) -> pa.Table:
    storage = Storage(warehouse)
    return pq.read_table(storage.resolve(file.path), columns=columns, filesystem=storage.filesystem)


def _sum_task(sums: Sequence[BudgetSum], _: int, sent: dict[str, list[pa.Table]]) -> Found:
    if not sent.get("silver"):
        return {}
    rows = pa.concat_tables(sent["silver"])
    policies = {
        seq: policy
        for part in sent.get("bronze", [])
        for seq, policy in zip(part["seq"].to_pylist(), part["policy_id"].to_pylist(), strict=True)
    }
    by_policy = np.array([policies.get(seq) for seq in rows["seq"].to_pylist()], object)
    return {place: _sum_one(budget_sum, rows, by_policy) for place, budget_sum in enumerate(sums)}


def _sum_one(budget_sum: BudgetSum, rows: pa.Table, by_policy: np.ndarray) -> tuple[int, int]:
    time = rows["time"].to_numpy()
    mine = (
        (time >= budget_sum.starts_s * MICROS)
        & (time < budget_sum.ends_s * MICROS)
        & (rows["seq"].to_numpy() <= budget_sum.complete)
    )
    mine &= rows["tenant_id"].to_numpy(zero_copy_only=False) == budget_sum.tenant_id
    named = rows["budget"].to_numpy(zero_copy_only=False)
    counted = rows["budget"].is_null().to_numpy()
    if budget_sum.provider_id is not None:
        counted &= rows["provider_id"].to_numpy(zero_copy_only=False) == budget_sum.provider_id
    if budget_sum.policy_id is not None:
        counted &= by_policy == budget_sum.policy_id
    # the budget that it names, whatever its provider and policy
    mine &= counted | np.equal(named, budget_sum.budget_id)
    return sum_exactly(rows["cost"].filter(pa.array(mine))), int(mine.sum())


def _add(parts: Sequence[Found]) -> Found:
    nanos: Counter[int] = Counter()
    events: Counter[int] = Counter()
    for part in parts:
        for place, (cost, count) in part.items():
            nanos[place] += cost
            events[place] += count
    return {place: (nanos[place], events[place]) for place in nanos.keys() | events.keys()}


def _tell(sums: Sequence[BudgetSum], sums_by_place: Found, left_out: int) -> ReconcileCheck:
    wrong = [
        (
            f"{budget_sum.name}: {format_nanos(budget_sum.settled)} "
            f"of {budget_sum.events} events, silver "
            f"{format_nanos(cost)} of {count}"
        )
        for place, budget_sum in enumerate(sums)
        for cost, count in [sums_by_place.get(place, (0, 0))]
        if (cost, count) != (budget_sum.settled, budget_sum.events)
    ]
    cost, events = (
        sum(budget_sum.settled for budget_sum in sums),
        sum(budget_sum.events for budget_sum in sums),
    )
    figures = {"budgets": len(sums), "left_out": left_out, "differ": len(wrong)}
    says = (
        f"{len(sums)} windows of budgets, {format_nanos(cost)} of {events} events; {left_out} "
        "not compared"
    )
    return ReconcileCheck(BUDGETS_CHECK, not wrong, says, figures, name_first(sorted(wrong)))


# -- What is settled of budgets: read before the tables, so that these are not behind for long.


def read_sums(options: SourceOptions, budgets: str, spent: str) -> list[BudgetSum]:
    """Every window of the budgets in these buckets. Raises BrokerUnavailable."""
    with Broker(options) as broker:
        return broker.run(read_budget_sums(broker.jetstream, budgets, spent))
