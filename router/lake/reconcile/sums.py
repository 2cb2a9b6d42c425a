"""Sum silver and compare it with the sums in gold, for each tenant, provider, type and status.

This module shares no code with the one that made gold: costs and latencies are added as Python integers, buckets are found among
whole numbers.
"""

from __future__ import annotations

from collections.abc import Iterable

import pyarrow as pa
import pyarrow.compute as pc

from router.lake.reconcile.checks import ReconcileCheck, name_first
from router.lake.reconcile.exact import ExactSums, Group, find_buckets, format_money
from router.lake.reconcile.snapshot import WarehouseSnapshot

GROUP = ("tenant_id", "provider_id", "event_type", "status")
GOLD = ("gold_minute", "gold_day")
FIGURES = ("count", "cost", "latency", "buckets")

ByGroup = dict[Group, tuple[int, ...]]  # count, cost in 1e-9, latency, sum of the latencies' bucket numbers


def check_sums(tables: WarehouseSnapshot) -> tuple[ReconcileCheck, ReconcileCheck]:
    """Check minutes and days. An adjustment is in another window than its event, but in the same group."""
    silver = _sum_tables(map(_select_silver, tables.read_each("silver", [*GROUP, "cost", "latency_ms"])))
    gold = (
        _sum_tables(map(_select_gold, tables.read_each(table, [*GROUP, "count", "cost", "latency_sum", "histogram"]))) for table in GOLD
    )
    minutes, days = (_compare(f"silver = {table}", silver, sums) for table, sums in zip(GOLD, gold, strict=True))
    return minutes, days


def _select_silver(rows: pa.Table) -> pa.Table:
    latency = rows["latency_ms"]
    return _name_columns(rows, pa.repeat(pa.scalar(1, pa.int64()), len(rows)), latency, find_buckets(latency))


def _select_gold(rows: pa.Table) -> pa.Table:
    return _name_columns(rows, rows["count"], rows["latency_sum"], _sum_buckets(rows["histogram"]))


def _name_columns(rows: pa.Table, *figures: pa.Array | pa.ChunkedArray) -> pa.Table:
    count, latency, numbers = figures
    return pa.table([*(rows[name] for name in GROUP), count, rows["cost"], latency, numbers], names=[*GROUP, *FIGURES])


def _sum_buckets(histograms: pa.ChunkedArray) -> pa.Array:
    """Return for each row the sum of its bucket numbers, each as often as it counts."""
    maps = histograms.combine_chunks()
    running = pc.cumulative_sum(pc.multiply(maps.keys.cast(pa.int64()), maps.items))
    running = pa.concat_arrays([pa.array([0], pa.int64()), running])
    return pc.subtract(running.take(maps.offsets[1:]), running.take(maps.offsets[:-1]))


def _sum_tables(tables: Iterable[pa.Table]) -> ByGroup:
    sums = ExactSums(GROUP, FIGURES)
    for rows in tables:
        sums.add(rows)
    return sums.sum_groups()


def _compare(name: str, silver: ByGroup, gold: ByGroup) -> ReconcileCheck:
    wrong = sorted(group for group in silver.keys() | gold.keys() if silver.get(group) != gold.get(group))
    count, cost = (sum(figures[place] for figures in gold.values()) for place in (0, 1))
    figures = {"groups": len(gold), "events": count, "cost": format_money(cost), "differ": len(wrong)}
    says = f"{count} events, {format_money(cost)}, in {len(gold)} groups"
    return ReconcileCheck(name, not wrong, says, figures, name_first("/".join(map(str, group)) for group in wrong))
