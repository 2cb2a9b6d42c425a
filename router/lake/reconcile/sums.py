"""Sum silver and compare it with the sums in gold, for each tenant, provider, type and status.

This module shares only the list of columns with the one that made gold: figures are added as Python integers, buckets are found
among whole numbers. A column is compared once every file of gold has it: a backfill gives it to older files.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator

import pyarrow as pa
import pyarrow.compute as pc

from router.lake.reconcile.checks import ReconcileCheck, name_first
from router.lake.reconcile.exact import ExactSums, Group, find_buckets, format_money
from router.lake.reconcile.snapshot import WarehouseSnapshot
from router.lake.tables.gold_columns import FIRST_FIGURES, HISTOGRAM, SUMMED, GoldColumn

SUM_COLUMNS = ("tenant_id", "provider_id", "event_type", "status")
GROUPS = {"gold_minute": SUM_COLUMNS[1:], "gold_hour": SUM_COLUMNS, "gold_day": SUM_COLUMNS}  # minutes have no tenant
HISTOGRAM_BUCKETS = "buckets"
WINDOWS = ("window_start", "corrects_window")

ByGroup = dict[Group, tuple[int, ...]]  # the summed columns of gold, cost in 1e-9; and the sum of the latencies' bucket numbers
Names = tuple[str, ...]
Columns = tuple[GoldColumn, ...]


def check_sums(tables: WarehouseSnapshot) -> Iterator[ReconcileCheck]:
    """Check minutes, hours and days. An adjustment is in another window than its event, but in the same group."""
    kinds = {table: (group, _choose_columns(tables, table)) for table, group in GROUPS.items()}
    silver = {kind: _sum_silver(tables, *kind) for kind in set(kinds.values())}
    for table, kind in kinds.items():
        yield _compare(f"silver = {table}", silver[kind], _sum_gold(tables, table, *kind))


def _choose_columns(tables: WarehouseSnapshot, table: str) -> Columns:
    return tuple(one for one in SUMMED if one.name in FIRST_FIGURES or tables.has_column(table, one.name))


def _sum_silver(tables: WarehouseSnapshot, group: Names, columns: Columns) -> ByGroup:
    sources = {one.source: None for one in columns if one.source not in {None, "latency_ms"}}
    silver = tables.read_each("silver", [*group, "latency_ms", *sources])
    return _sum_tables((_select_silver(rows, group, columns) for rows in silver), group, columns)


def _sum_gold(tables: WarehouseSnapshot, table: str, group: Names, columns: Columns) -> ByGroup:
    dropped = tables.warehouse.removals.list_days()
    names = [*group, *(one.name for one in columns), HISTOGRAM, *(WINDOWS if dropped else ())]
    rows = (_drop_days(rows, dropped) if dropped else rows for rows in tables.read_each(table, names))
    return _sum_tables((_select_gold(one, group, columns) for one in rows), group, columns)


def _drop_days(rows: pa.Table, dropped: list[str]) -> pa.Table:
    """Return the sums of days whose events silver still has."""
    day = pc.strftime(pc.coalesce(rows["corrects_window"], rows["window_start"]), format="%Y-%m-%d")
    return rows.filter(pc.invert(pc.is_in(day, pa.array(dropped, pa.string()))))


def _select_silver(rows: pa.Table, group: Names, columns: Columns) -> pa.Table:
    ones = pa.repeat(pa.scalar(1, pa.int64()), len(rows))
    figures = {one.name: ones if one.source is None else rows[one.source] for one in columns}
    return pa.table({**{name: rows[name] for name in group}, **figures, HISTOGRAM_BUCKETS: find_buckets(rows["latency_ms"])})


def _select_gold(rows: pa.Table, group: Names, columns: Columns) -> pa.Table:
    names = (*group, *(one.name for one in columns))
    return pa.table({**{name: rows[name] for name in names}, HISTOGRAM_BUCKETS: _sum_buckets(rows[HISTOGRAM])})


def _sum_buckets(histograms: pa.ChunkedArray) -> pa.Array:
    """Return for each row the sum of its bucket numbers, each as often as it counts."""
    maps = histograms.combine_chunks()
    running = pc.cumulative_sum(pc.multiply(maps.keys.cast(pa.int64()), maps.items))
    running = pa.concat_arrays([pa.array([0], pa.int64()), running])
    return pc.subtract(running.take(maps.offsets[1:]), running.take(maps.offsets[:-1]))


def _sum_tables(tables: Iterable[pa.Table], group: Names, columns: Columns) -> ByGroup:
    sums = ExactSums(group, [*(one.name for one in columns), HISTOGRAM_BUCKETS])
    for rows in tables:
        sums.add(rows)
    return sums.sum_groups()


def _compare(name: str, silver: ByGroup, gold: ByGroup) -> ReconcileCheck:
    wrong = sorted(group for group in silver.keys() | gold.keys() if silver.get(group) != gold.get(group))
    count, cost = (sum(figures[place] for figures in gold.values()) for place in (0, 1))
    figures = {"groups": len(gold), "events": count, "cost": format_money(cost), "differ": len(wrong)}
    says = f"{count} events, {format_money(cost)}, in {len(gold)} groups"
    return ReconcileCheck(name, not wrong, says, figures, name_first("/".join(map(str, group)) for group in wrong))
