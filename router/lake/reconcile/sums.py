"""Sum silver and compare it with the sums in gold, for each tenant, provider, type and status.

This module shares no code with the one that made gold: costs and latencies are added as Python integers, buckets are found among
whole numbers.
"""

from __future__ import annotations

from collections.abc import Iterable

import pyarrow as pa
import pyarrow.compute as pc

from router.lake.reconcile.checks import Check, named
from router.lake.reconcile.columns import Tables
from router.lake.reconcile.exact import Group, Sums, as_money, bucket_of

GROUP = ("tenant_id", "provider_id", "event_type", "status")
GOLD = ("gold_minute", "gold_day")
FIGURES = ("count", "cost", "latency", "buckets")

ByGroup = dict[Group, tuple[int, ...]]  # count, cost in 1e-9, latency, sum of the latencies' bucket numbers


def check_sums(tables: Tables) -> tuple[Check, Check]:
    """Check minutes and days. An adjustment is in another window than its event, but in the same group."""
    silver = _added(map(_of_silver, tables.each("silver", [*GROUP, "cost", "latency_ms"])))
    gold = (_added(map(_of_gold, tables.each(table, [*GROUP, "count", "cost", "latency_sum", "histogram"]))) for table in GOLD)
    minutes, days = (_compared(f"silver = {table}", silver, sums) for table, sums in zip(GOLD, gold, strict=True))
    return minutes, days


def _of_silver(rows: pa.Table) -> pa.Table:
    latency = rows["latency_ms"]
    return _named(rows, pa.repeat(pa.scalar(1, pa.int64()), len(rows)), latency, bucket_of(latency))


def _of_gold(rows: pa.Table) -> pa.Table:
    return _named(rows, rows["count"], rows["latency_sum"], _numbers(rows["histogram"]))


def _named(rows: pa.Table, *figures: pa.Array | pa.ChunkedArray) -> pa.Table:
    count, latency, numbers = figures
    return pa.table([*(rows[name] for name in GROUP), count, rows["cost"], latency, numbers], names=[*GROUP, *FIGURES])


def _numbers(histograms: pa.ChunkedArray) -> pa.Array:
    """Return for each row the sum of its bucket numbers, each as often as it counts."""
    maps = histograms.combine_chunks()
    running = pc.cumulative_sum(pc.multiply(maps.keys.cast(pa.int64()), maps.items))
    running = pa.concat_arrays([pa.array([0], pa.int64()), running])
    return pc.subtract(running.take(maps.offsets[1:]), running.take(maps.offsets[:-1]))


def _added(tables: Iterable[pa.Table]) -> ByGroup:
    sums = Sums(GROUP, FIGURES)
    for rows in tables:
        sums.add(rows)
    return sums.by_group()


def _compared(name: str, silver: ByGroup, gold: ByGroup) -> Check:
    wrong = sorted(group for group in silver.keys() | gold.keys() if silver.get(group) != gold.get(group))
    count, cost = (sum(figures[place] for figures in gold.values()) for place in (0, 1))
    figures = {"groups": len(gold), "events": count, "cost": as_money(cost), "differ": len(wrong)}
    says = f"{count} events, {as_money(cost)}, in {len(gold)} groups"
    return Check(name, not wrong, says, figures, named("/".join(map(str, group)) for group in wrong))
